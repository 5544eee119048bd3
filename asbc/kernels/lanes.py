"""SIMD vectors in compiled code: eight doubles or sixteen singles, with the usual operators.

LLVM does not vectorise loops over many small arrays, because it cannot prove that they do not overlap. Explicit lanes
need no such proof. ``load`` and ``store`` move lanes between a flat, contiguous array and a register: :data:`LANES` of
them from float64, :data:`SINGLES` from float32. A lane's result does not depend on the other lanes.
"""

from __future__ import annotations

import operator

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.core.typing.templates import ConcreteTemplate, infer_global
from numba.core.typing.templates import signature as typing_signature
from numba.extending import intrinsic, lower_builtin, models, register_model

LANES = 8  # doubles: 64 bytes, one cache line and one AVX-512 register
SINGLES = 16  # singles: 64 bytes
HALF = 4  # doubles: one AVX2 register, for loops that need many registers
_FUSE = ("contract",)  # allows LLVM to fuse a product and a sum


class LanesType(types.Type):
    """The numba type of a vector of `width` lanes of float64 or float32."""

    def __init__(self, width: int, number: types.Float = types.float64) -> None:
        self.width = width
        self.number = number
        super().__init__(name=f"Lanes({width}, {number})")

    @property
    def vector(self) -> ir.VectorType:
        """The LLVM type."""
        return ir.VectorType(ir.DoubleType() if self.number == types.float64 else ir.FloatType(), self.width)


lanes_type = LanesType(LANES)
half_type = LanesType(HALF)
singles_type = LanesType(SINGLES, types.float32)
_DOUBLES, _HALVES = lanes_type.vector, half_type.vector


@register_model(LanesType)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager, fe_type):
        super().__init__(manager, fe_type, fe_type.vector)


def _like(value, number: float) -> ir.Constant:
    """The number in every lane of a vector like `value`."""
    return ir.Constant(value.type, [ir.Constant(value.type.element, number)] * value.type.count)


def broadcast(builder, kind, value):
    """The number `value` in every lane of a vector of this kind."""
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.IntType(32)(0))
    mask = ir.Constant(ir.VectorType(ir.IntType(32), kind.count), [0] * kind.count)
    return builder.shuffle_vector(first, ir.Constant(kind, ir.Undefined), mask)


def _call(builder, name: str, args):
    kind = args[0].type
    suffix = f"v{kind.count}f{64 if kind.element == ir.DoubleType() else 32}"
    function_type = ir.FunctionType(kind, [kind] * len(args))
    return builder.call(cgutils.get_or_insert_function(builder.module, function_type, f"llvm.{name}.{suffix}"), args)


def _check_flat(array_type, number) -> None:
    if array_type.ndim != 1 or array_type.layout != "C" or array_type.dtype != number:
        raise TypingError(f"lanes of {number} need flat, contiguous {number} arrays, not {array_type}")


def _address(context, builder, array_type, array, offset, kind):
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [offset]), kind.as_pointer())


def _define_load(kind: LanesType, array, offset):
    _check_flat(array, kind.number)

    def codegen(context, builder, signature, args):
        place = _address(context, builder, signature.args[0], *args, kind=kind.vector)
        return builder.load(place, align=kind.number.bitwidth // 8)

    return kind(array, types.intp), codegen


@intrinsic
def load(typingctx, array, offset):
    """Load ``array[offset : offset + LANES]``; SINGLES numbers from a float32 array."""
    return _define_load(singles_type if array.dtype == types.float32 else lanes_type, array, offset)


@intrinsic
def load_half(typingctx, array, offset):
    """Load ``array[offset : offset + HALF]``."""
    return _define_load(half_type, array, offset)


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
        return values if numbers == _DOUBLES else builder.fpext(values, _DOUBLES)

    return lanes_type(matrix, types.intp, types.intp), codegen


@intrinsic
def store(typingctx, array, offset, value):
    """Write lanes to `array` from `offset` on."""
    _check_flat(array, value.number)

    def codegen(context, builder, signature, args):
        place = _address(context, builder, signature.args[0], *args[:2], kind=args[2].type)
        builder.store(args[2], place, align=value.number.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, value), codegen


@intrinsic
def store_apart(typingctx, array, low, high, value):
    """Write the first half of the lanes to `array` from `low` on, the second half from `high` on."""
    _check_flat(array, types.float64)

    def codegen(context, builder, signature, args):
        for half, offset in enumerate(args[1:3]):
            mask = ir.Constant(ir.VectorType(ir.IntType(32), HALF), [half * HALF + t for t in range(HALF)])
            part = builder.shuffle_vector(args[3], ir.Constant(_DOUBLES, ir.Undefined), mask)
            builder.store(part, _address(context, builder, signature.args[0], args[0], offset, kind=_HALVES), align=8)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.intp, value), codegen


@intrinsic
def prefetch(typingctx, array, row, column):
    """Prefetch ``array[row, column]`` of a C-ordered array into the cache."""

    def codegen(context, builder, signature, args):
        address = row_address(context, builder, signature.args[0], *args)
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        function_type = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        function = cgutils.get_or_insert_function(builder.module, function_type, "llvm.prefetch.p0i8")
        reading, keep, data = word(0), word(3), word(1)
        builder.call(function, [builder.bitcast(address, byte), reading, keep, data])
        return context.get_dummy_value()

    return types.void(array, types.intp, types.intp), codegen


def _define_splat(kind: LanesType):
    def codegen(context, builder, signature, args):
        return broadcast(builder, kind.vector, args[0])

    return kind(kind.number), codegen


@intrinsic
def splat(typingctx, value):
    """The same number in every lane; SINGLES lanes for a float32."""
    return _define_splat(singles_type if value == types.float32 else lanes_type)


@intrinsic
def splat_half(typingctx, value):
    """The same number in HALF lanes."""
    return _define_splat(half_type)


def _reduce_lanes(combine):
    """Lower a reduction over lanes, pairwise in a fixed order."""

    def codegen(context, builder, signature, args):
        parts = [builder.extract_element(args[0], ir.IntType(32)(i)) for i in range(args[0].type.count)]
        while len(parts) > 1:
            parts = [combine(builder, a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]

    return codegen


@intrinsic
def lane_sum(typingctx, value):
    """The sum over lanes in a fixed order; the sum of eight is the sum of the two halves' sums."""
    return types.float64(value), _reduce_lanes(lambda builder, a, b: builder.fadd(a, b))


@intrinsic
def lane_min(typingctx, value):
    """The least of the lanes."""
    return types.float64(value), _reduce_lanes(_smaller)


def _smaller(builder, a, b):
    return builder.select(builder.fcmp_ordered("<", b, a), b, a)


@intrinsic
def sqrt(typingctx, value):
    """Square root, lane by lane."""

    def codegen(context, builder, signature, args):
        return _call(builder, "sqrt", args)

    return value(value), codegen


@intrinsic
def larger_magnitude(typingctx, value, other):
    """The larger of ``value`` and ``|other|``, lane by lane."""

    def codegen(context, builder, signature, args):
        return _call(builder, "maxnum", [args[0], _call(builder, "fabs", [args[1]])])

    return value(value, other), codegen


@intrinsic
def where_positive(typingctx, test, yes, no):
    """``yes`` in the lanes where ``test > 0``, ``no`` elsewhere."""

    def codegen(context, builder, signature, args):
        return builder.select(builder.fcmp_ordered(">", args[0], _like(args[0], 0.0)), args[1], args[2])

    return test(test, yes, no), codegen


@intrinsic
def safe_ratio(typingctx, part, whole):
    """``part / whole`` lane by lane; 0 where the whole is not positive."""

    def codegen(context, builder, signature, args):
        positive = builder.fcmp_ordered(">", args[1], _like(args[1], 0.0))
        quotient = builder.fdiv(args[0], builder.select(positive, args[1], _like(args[1], 1.0)))
        return builder.select(positive, quotient, _like(args[1], 0.0))

    return part(part, whole), codegen


@intrinsic
def gather(typingctx, array, starts, offsets, place):
    """Lanes ``array[starts[t] + offsets[place + t]]``, from a flat float64 array and two flat int64 ones."""

    def codegen(context, builder, signature, args):
        data, first, more = (
            context.make_array(kind)(context, builder, value).data
            for kind, value in zip(signature.args[:3], args[:3], strict=True)
        )
        lanes = ir.Constant(_DOUBLES, ir.Undefined)
        for lane in range(LANES):
            start = builder.load(builder.gep(first, [ir.IntType(64)(lane)]))
            offset = builder.load(builder.gep(more, [builder.add(args[3], ir.IntType(64)(lane))]))
            value = builder.load(builder.gep(data, [builder.add(start, offset)]))
            lanes = builder.insert_element(lanes, value, ir.IntType(32)(lane))
        return lanes

    return lanes_type(array, starts, offsets, types.intp), codegen


@intrinsic
def smaller(typingctx, value, other):
    """The smaller of the two, lane by lane."""

    return value(value, other), lambda context, builder, signature, args: _smaller(builder, *args)


@intrinsic
def where_less(typingctx, value, other, yes, no):
    """``yes`` in the lanes where ``value < other``, ``no`` elsewhere."""

    def codegen(context, builder, signature, args):
        return builder.select(builder.fcmp_ordered("<", args[0], args[1]), args[2], args[3])

    return value(value, other, yes, no), codegen


@intrinsic
def any_positive(typingctx, test):
    """Whether ``test > 0`` in at least one lane."""

    def codegen(context, builder, signature, args):
        flags = builder.fcmp_ordered(">", args[0], _like(args[0], 0.0))
        bits = builder.bitcast(flags, ir.IntType(flags.type.count))
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
        longs = ir.VectorType(ir.IntType(64), args[0].type.count)
        x = _call(builder, "maxnum", [args[0], _like(args[0], -708.0)])
        n = _call(builder, "rint", [builder.fmul(x, _like(args[0], _LOG2_E))])
        r = builder.fadd(x, builder.fmul(n, _like(args[0], -_LN2_HIGH), flags=_FUSE), flags=_FUSE)
        r = builder.fadd(r, builder.fmul(n, _like(args[0], -_LN2_LOW), flags=_FUSE), flags=_FUSE)
        series = _like(args[0], _TAYLOR[-1])
        for term in reversed(_TAYLOR[:-1]):
            series = builder.fadd(builder.fmul(series, r, flags=_FUSE), _like(args[0], term), flags=_FUSE)
        # Adding 1.5 * 2**52 leaves the whole number n in the low bits of the double. Shifting it into the exponent
        # gives 2**n.
        shifted = builder.bitcast(builder.fadd(n, _like(args[0], 6755399441055744.0)), longs)
        power = builder.shl(
            builder.add(shifted, ir.Constant(longs, [1023] * longs.count)), ir.Constant(longs, [52] * longs.count)
        )
        result = builder.fmul(series, builder.bitcast(power, args[0].type))
        gone = builder.fcmp_ordered("<", args[0], _like(args[0], -708.0))
        return builder.select(gone, _like(args[0], 0.0), result)

    return value(value), codegen


def _define_operator(symbol, name: str, flags=()) -> None:
    """Define `symbol`, such as ``operator.add``, between lanes as the instruction `name`.

    Typed and lowered directly, because numba would compile an ``overload`` at every use.
    """

    @infer_global(symbol)
    class _Typed(ConcreteTemplate):
        cases = tuple(typing_signature(kind, kind, kind) for kind in (lanes_type, half_type, singles_type))

    @lower_builtin(symbol, singles_type, singles_type)
    @lower_builtin(symbol, half_type, half_type)
    @lower_builtin(symbol, lanes_type, lanes_type)
    def _lowered(context, builder, signature, args):
        return getattr(builder, name)(*args, flags=flags)


for _symbol, _name, _flags in (
    (operator.add, "fadd", _FUSE),
    (operator.iadd, "fadd", _FUSE),
    (operator.sub, "fsub", _FUSE),
    (operator.isub, "fsub", _FUSE),
    (operator.mul, "fmul", _FUSE),
    (operator.truediv, "fdiv", ()),
):
    _define_operator(_symbol, _name, _flags)
