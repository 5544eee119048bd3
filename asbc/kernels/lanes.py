"""SIMD vectors in compiled code: eight doubles, one per lane, with the usual operators.

LLVM does not vectorise loops over many small arrays, because it cannot prove that they do not overlap. Explicit lanes
need no such proof. ``load`` and ``store`` move lanes between a flat, contiguous float64 array and a register. A lane's
result does not depend on the other lanes.
"""

from __future__ import annotations

import operator

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.core.typing.templates import ConcreteTemplate, infer_global
from numba.core.typing.templates import signature as typing_signature
from numba.extending import intrinsic, lower_builtin, models, register_model

LANES = 8  # doubles: 64 bytes, one cache line and one AVX-512 register
_VECTOR = ir.VectorType(ir.DoubleType(), LANES)
_FUSE = ("contract",)  # allows LLVM to fuse a product and a sum


class LanesType(types.Type):
    """The numba type of a vector of lanes."""

    def __init__(self) -> None:
        super().__init__(name="Lanes")


lanes_type = LanesType()


@register_model(LanesType)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager, fe_type):
        super().__init__(manager, fe_type, _VECTOR)


def _constant(number: float) -> ir.Constant:
    """The number in every lane."""
    return ir.Constant(_VECTOR, [ir.Constant(_VECTOR.element, number)] * LANES)


def broadcast(builder, kind, value):
    """The number `value` in every lane of a vector of this kind."""
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.IntType(32)(0))
    mask = ir.Constant(ir.VectorType(ir.IntType(32), kind.count), [0] * kind.count)
    return builder.shuffle_vector(first, ir.Constant(kind, ir.Undefined), mask)


def _call(builder, name: str, args):
    function_type = ir.FunctionType(_VECTOR, [_VECTOR] * len(args))
    return builder.call(cgutils.get_or_insert_function(builder.module, function_type, f"llvm.{name}.v8f64"), args)


def _address(context, builder, array_type, array, offset):
    """The address of the lanes of a flat array from `offset` on."""
    if array_type.ndim != 1 or array_type.layout != "C" or array_type.dtype != types.float64:
        raise TypingError(f"lanes need flat, contiguous float64 arrays, not {array_type}")
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [offset]), _VECTOR.as_pointer())


@intrinsic
def load(typingctx, array, offset):
    """Load ``array[offset : offset + LANES]``."""

    def codegen(context, builder, signature, args):
        return builder.load(_address(context, builder, signature.args[0], *args), align=8)

    return lanes_type(array, types.intp), codegen


def row_address(context, builder, matrix_type, matrix, row, column):
    """The address of ``matrix[row, column]`` of a C-ordered matrix."""
    if matrix_type.ndim != 2 or matrix_type.layout != "C":
        raise TypingError(f"rows need C-ordered matrices, not {matrix_type}")
    view = context.make_array(matrix_type)(context, builder, matrix)
    width = cgutils.unpack_tuple(builder, view.shape, 2)[1]
    return builder.gep(view.data, [builder.add(builder.mul(row, width), column)])


@intrinsic
def load_row(typingctx, matrix, row, column):
    """Load ``matrix[row, column : column + LANES]`` of a C-ordered matrix of singles or doubles, as doubles."""

    def codegen(context, builder, signature, args):
        address = row_address(context, builder, signature.args[0], *args)
        numbers = ir.VectorType(address.type.pointee, LANES)
        values = builder.load(builder.bitcast(address, numbers.as_pointer()), align=4)
        return values if numbers == _VECTOR else builder.fpext(values, _VECTOR)

    return lanes_type(matrix, types.intp, types.intp), codegen


@intrinsic
def gather(typingctx, array, starts, offsets, place):
    """Lanes ``array[starts[t] + offsets[place + t]]``, from a flat float64 array and two flat int64 ones."""

    def codegen(context, builder, signature, args):
        data, first, more = (
            context.make_array(kind)(context, builder, value).data
            for kind, value in zip(signature.args[:3], args[:3], strict=True)
        )
        lanes = ir.Constant(_VECTOR, ir.Undefined)
        for lane in range(LANES):
            start = builder.load(builder.gep(first, [ir.IntType(64)(lane)]))
            offset = builder.load(builder.gep(more, [builder.add(args[3], ir.IntType(64)(lane))]))
            value = builder.load(builder.gep(data, [builder.add(start, offset)]))
            lanes = builder.insert_element(lanes, value, ir.IntType(32)(lane))
        return lanes

    return lanes_type(array, starts, offsets, types.intp), codegen


@intrinsic
def store(typingctx, array, offset, value):
    """Write lanes to `array` from `offset` on."""

    def codegen(context, builder, signature, args):
        builder.store(args[2], _address(context, builder, signature.args[0], *args[:2]), align=8)
        return context.get_dummy_value()

    return types.void(array, types.intp, value), codegen


@intrinsic
def splat(typingctx, value):
    """The same number in every lane."""

    def codegen(context, builder, signature, args):
        return broadcast(builder, _VECTOR, args[0])

    return lanes_type(types.float64), codegen


def _reduce_lanes(combine):
    """Combine the lanes pairwise, in a fixed order."""

    def codegen(context, builder, signature, args):
        parts = [builder.extract_element(args[0], ir.IntType(32)(i)) for i in range(LANES)]
        while len(parts) > 1:
            parts = [combine(builder, a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]

    return codegen


@intrinsic
def lane_sum(typingctx, value):
    """The sum over lanes."""
    return types.float64(value), _reduce_lanes(lambda builder, a, b: builder.fadd(a, b))


@intrinsic
def lane_min(typingctx, value):
    """The least of the lanes."""
    return types.float64(value), _reduce_lanes(
        lambda builder, a, b: builder.select(builder.fcmp_ordered("<", b, a), b, a)
    )


@intrinsic
def sqrt(typingctx, value):
    """Square root, lane by lane."""

    def codegen(context, builder, signature, args):
        return _call(builder, "sqrt", args)

    return value(value), codegen


@intrinsic
def where_less(typingctx, value, other, yes, no):
    """``yes`` in the lanes where ``value < other``, ``no`` elsewhere."""

    def codegen(context, builder, signature, args):
        return builder.select(builder.fcmp_ordered("<", args[0], args[1]), args[2], args[3])

    return value(value, other, yes, no), codegen


@njit(inline="always")
def where_positive(test, yes, no):
    """``yes`` in the lanes where ``test > 0``, ``no`` elsewhere."""
    return where_less(splat(0.0), test, yes, no)


@njit(inline="always")
def smaller(value, other):
    """The smaller of the two, lane by lane."""
    return where_less(other, value, other, value)


@intrinsic
def any_positive(typingctx, test):
    """Whether ``test > 0`` in at least one lane."""

    def codegen(context, builder, signature, args):
        flags = builder.fcmp_ordered(">", args[0], _constant(0.0))
        bits = builder.bitcast(flags, ir.IntType(LANES))
        return builder.icmp_unsigned("!=", bits, ir.Constant(bits.type, 0))

    return types.boolean(test), codegen


# exp(r) on |r| <= ln(2)/2 by its Taylor series; the remainder after thirteen terms is below 2**-56.
_TAYLOR = [1.0]
for _i in range(1, 14):
    _TAYLOR.append(_TAYLOR[-1] / _i)
_LOG2_E = float(np.log2(np.e))
# ln 2 as a sum of two numbers. The first ends in zero bits, so that its product with n is exact.
_LN2_HIGH = float.fromhex("0x1.62e42fee00000p-1")
_LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")


@intrinsic
def exp(typingctx, value):
    """``exp(value)`` for ``value <= 0``, to about one unit in the last place; 0 below -708."""

    def codegen(context, builder, signature, args):
        longs = ir.VectorType(ir.IntType(64), LANES)
        x = _call(builder, "maxnum", [args[0], _constant(-708.0)])
        n = _call(builder, "rint", [builder.fmul(x, _constant(_LOG2_E))])
        r = builder.fadd(x, builder.fmul(n, _constant(-_LN2_HIGH), flags=_FUSE), flags=_FUSE)
        r = builder.fadd(r, builder.fmul(n, _constant(-_LN2_LOW), flags=_FUSE), flags=_FUSE)
        series = _constant(_TAYLOR[-1])
        for term in reversed(_TAYLOR[:-1]):
            series = builder.fadd(builder.fmul(series, r, flags=_FUSE), _constant(term), flags=_FUSE)
        # Adding 1.5 * 2**52 leaves the whole number n in the low bits of the double. Shifting it into the exponent
        # gives 2**n.
        shifted = builder.bitcast(builder.fadd(n, _constant(6755399441055744.0)), longs)
        power = builder.shl(builder.add(shifted, ir.Constant(longs, [1023] * LANES)), ir.Constant(longs, [52] * LANES))
        result = builder.fmul(series, builder.bitcast(power, _VECTOR))
        gone = builder.fcmp_ordered("<", args[0], _constant(-708.0))
        return builder.select(gone, _constant(0.0), result)

    return value(value), codegen


def _define_operator(symbol, name: str, flags=()) -> None:
    """Define `symbol`, such as ``operator.add``, between lanes as the instruction `name`.

    Typed and lowered directly, because numba would compile an ``overload`` at every use.
    """

    @infer_global(symbol)
    class _Typed(ConcreteTemplate):
        cases = (typing_signature(lanes_type, lanes_type, lanes_type),)

    @lower_builtin(symbol, lanes_type, lanes_type)
    def _lowered(context, builder, signature, args):
        return getattr(builder, name)(*args, flags=flags)


for _symbol, _name, _flags in (
    (operator.add, "fadd", _FUSE),
    (operator.sub, "fsub", _FUSE),
    (operator.mul, "fmul", _FUSE),
    (operator.truediv, "fdiv", ()),
):
    _define_operator(_symbol, _name, _flags)
