"""Eight doubles side by side: a vector value for compiled code.

LLVM's automatic vectoriser gives up on loops over many small arrays, because it cannot prove that they do
not overlap. Code written with :data:`LANES` explicit lanes needs no such proof. ``load`` and ``store`` move
lanes between a flat, contiguous float64 array and a register; arithmetic is written with the usual operators,
and every lane is computed by the same instructions, so a lane's result does not depend on its neighbours.
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

LANES = 8  # doubles side by side: 64 bytes, one cache line and one register of AVX-512
_DOUBLES = ir.VectorType(ir.DoubleType(), LANES)
_LONGS = ir.VectorType(ir.IntType(64), LANES)
_FUSE = ("contract",)  # lets LLVM turn a product and a sum into one fused instruction


class LanesType(types.Type):
    """The compile-time type of a vector value."""

    def __init__(self) -> None:
        super().__init__(name="Lanes")


lanes_type = LanesType()


@register_model(LanesType)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager, fe_type):
        super().__init__(manager, fe_type, _DOUBLES)


def _constant(value: float) -> ir.Constant:
    return ir.Constant(_DOUBLES, [ir.Constant(ir.DoubleType(), value)] * LANES)


def _long_constant(value: int) -> ir.Constant:
    return ir.Constant(_LONGS, [ir.Constant(ir.IntType(64), value)] * LANES)


def _call(builder, name: str, args):
    function_type = ir.FunctionType(_DOUBLES, [_DOUBLES] * len(args))
    function = cgutils.get_or_insert_function(builder.module, function_type, f"llvm.{name}.v{LANES}f64")
    return builder.call(function, args)


def _address(context, builder, array_type, array, offset):
    if array_type.ndim != 1 or array_type.layout != "C" or array_type.dtype != types.float64:
        raise TypingError(f"lanes live in flat, contiguous float64 arrays, not in {array_type}")
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [offset]), _DOUBLES.as_pointer())


@intrinsic
def load(typingctx, array, offset):
    """Lanes ``array[offset : offset + LANES]``."""

    def codegen(context, builder, signature, args):
        return builder.load(_address(context, builder, signature.args[0], *args), align=8)

    return lanes_type(array, types.intp), codegen


@intrinsic
def load_row(typingctx, matrix, row, column):
    """Lanes ``matrix[row, column : column + LANES]`` of a C-ordered matrix of singles or doubles."""

    def codegen(context, builder, signature, args):
        matrix_type = signature.args[0]
        if matrix_type.ndim != 2 or matrix_type.layout != "C":
            raise TypingError(f"rows are loaded from C-ordered matrices, not from {matrix_type}")
        view = context.make_array(matrix_type)(context, builder, args[0])
        width = cgutils.unpack_tuple(builder, view.shape, 2)[1]
        place = builder.add(builder.mul(args[1], width), args[2])
        numbers = ir.VectorType(context.get_value_type(matrix_type.dtype), LANES)
        values = builder.load(builder.bitcast(builder.gep(view.data, [place]), numbers.as_pointer()), align=4)
        return values if matrix_type.dtype == types.float64 else builder.fpext(values, _DOUBLES)

    return lanes_type(matrix, types.intp, types.intp), codegen


@intrinsic
def store(typingctx, array, offset, value):
    """Write lanes to ``array[offset : offset + LANES]``."""

    def codegen(context, builder, signature, args):
        builder.store(args[2], _address(context, builder, signature.args[0], *args[:2]), align=8)
        return context.get_dummy_value()

    return types.void(array, types.intp, value), codegen


@intrinsic
def fetch(typingctx, array, row, column):
    """Ask the processor to bring ``array[row, column]`` of a C-ordered array into its cache; changes no value."""

    def codegen(context, builder, signature, args):
        array_type = signature.args[0]
        if array_type.ndim != 2 or array_type.layout != "C":
            raise TypingError(f"rows are fetched from C-ordered matrices, not from {array_type}")
        view = context.make_array(array_type)(context, builder, args[0])
        width = cgutils.unpack_tuple(builder, view.shape, 2)[1]
        place = builder.add(builder.mul(args[1], width), args[2])
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        function_type = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        function = cgutils.get_or_insert_function(builder.module, function_type, "llvm.prefetch.p0i8")
        reading, keep, data = word(0), word(3), word(1)
        builder.call(function, [builder.bitcast(builder.gep(view.data, [place]), byte), reading, keep, data])
        return context.get_dummy_value()

    return types.void(array, types.intp, types.intp), codegen


@intrinsic
def splat(typingctx, value):
    """The same number in every lane."""

    def codegen(context, builder, signature, args):
        first = builder.insert_element(ir.Constant(_DOUBLES, ir.Undefined), args[0], ir.IntType(32)(0))
        mask = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        return builder.shuffle_vector(first, ir.Constant(_DOUBLES, ir.Undefined), mask)

    return lanes_type(types.float64), codegen


@intrinsic
def lane_sum(typingctx, value):
    """The sum over lanes, always in the same order."""

    def codegen(context, builder, signature, args):
        parts = [builder.extract_element(args[0], ir.IntType(32)(i)) for i in range(LANES)]
        while len(parts) > 1:
            parts = [builder.fadd(a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]

    return types.float64(value), codegen


@intrinsic
def sqrt(typingctx, value):
    """Square root, lane by lane."""

    def codegen(context, builder, signature, args):
        return _call(builder, "sqrt", args)

    return lanes_type(value), codegen


@intrinsic
def farthest(typingctx, value, other):
    """The larger of ``value`` and ``|other|``, lane by lane."""

    def codegen(context, builder, signature, args):
        return _call(builder, "maxnum", [args[0], _call(builder, "fabs", [args[1]])])

    return lanes_type(value, other), codegen


@intrinsic
def where_positive(typingctx, test, yes, no):
    """``yes`` in the lanes where ``test > 0``, ``no`` elsewhere."""

    def codegen(context, builder, signature, args):
        return builder.select(builder.fcmp_ordered(">", args[0], _constant(0.0)), args[1], args[2])

    return lanes_type(test, yes, no), codegen


@intrinsic
def any_positive(typingctx, test):
    """Whether ``test > 0`` in at least one lane."""

    def codegen(context, builder, signature, args):
        flags = builder.fcmp_ordered(">", args[0], _constant(0.0))
        bits = builder.bitcast(flags, ir.IntType(LANES))
        return builder.icmp_unsigned("!=", bits, ir.IntType(LANES)(0))

    return types.boolean(test), codegen


ABREAST = 16  # entries of a matrix that are compared at a time: singles in one register of AVX-512


def _abreast(context, builder, array_type, array, place):
    """ABREAST entries of a contiguous array from `place` on, counted from its first entry."""
    vector = ir.VectorType(context.get_value_type(array_type.dtype), ABREAST)
    data = context.make_array(array_type)(context, builder, array).data
    return builder.load(builder.bitcast(builder.gep(data, [place]), vector.as_pointer()), align=4)


@intrinsic
def near(typingctx, tile, row, column, half, limits, limit, own_half):
    """Which of ABREAST entries, ``p = tile[row, column + t]``, are large enough for their row or for their column.

    Bit t of the result is set where ``p - half[column + t] > limit`` or ``p - own_half > limits[column + t]``.
    """
    kind = tile.dtype

    def codegen(context, builder, signature, args):
        tile_type, _, _, half_type, limits_type, _, _ = signature.args
        view = context.make_array(tile_type)(context, builder, args[0])
        width = cgutils.unpack_tuple(builder, view.shape, 2)[1]
        start = builder.add(builder.mul(args[1], width), args[2])
        product = _abreast(context, builder, tile_type, args[0], start)
        halves = _abreast(context, builder, half_type, args[3], args[2])
        bounds = _abreast(context, builder, limits_type, args[4], args[2])

        def spread(value):
            first = builder.insert_element(ir.Constant(product.type, ir.Undefined), value, ir.IntType(32)(0))
            mask = ir.Constant(ir.VectorType(ir.IntType(32), ABREAST), [0] * ABREAST)
            return builder.shuffle_vector(first, ir.Constant(product.type, ir.Undefined), mask)

        by_row = builder.fcmp_ordered(">", builder.fsub(product, halves), spread(args[5]))
        by_column = builder.fcmp_ordered(">", builder.fsub(product, spread(args[6])), bounds)
        bits = builder.bitcast(builder.or_(by_row, by_column), ir.IntType(ABREAST))
        return builder.zext(bits, ir.IntType(64))

    return types.int64(tile, types.intp, types.intp, half, limits, kind, kind), codegen


@intrinsic
def lowest_bit(typingctx, bits):
    """The place of the lowest bit that is set, of a whole number that is not 0."""

    def codegen(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), codegen


# exp(r) on |r| <= ln(2)/2 by its Taylor series; thirteen terms leave less than 2**-56 of it out.
_TAYLOR = [1.0]
for _i in range(1, 14):
    _TAYLOR.append(_TAYLOR[-1] / _i)
_LOG2_E = float(np.log2(np.e))
# ln 2 as a sum of two numbers. The first ends in so many zero bits that its product with a whole number is exact.
_LN2_HIGH = float.fromhex("0x1.62e42fee00000p-1")
_LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")


@intrinsic
def exp(typingctx, value):
    """``exp(value)`` for ``value <= 0``, to about one unit in the last place; 0 below -708."""

    def codegen(context, builder, signature, args):
        x = _call(builder, "maxnum", [args[0], _constant(-708.0)])
        n = _call(builder, "rint", [builder.fmul(x, _constant(_LOG2_E))])
        r = builder.fadd(x, builder.fmul(n, _constant(-_LN2_HIGH), flags=_FUSE), flags=_FUSE)
        r = builder.fadd(r, builder.fmul(n, _constant(-_LN2_LOW), flags=_FUSE), flags=_FUSE)
        series = _constant(_TAYLOR[-1])
        for term in reversed(_TAYLOR[:-1]):
            series = builder.fadd(builder.fmul(series, r, flags=_FUSE), _constant(term), flags=_FUSE)
        # Adding 1.5 * 2**52 leaves the whole number n in the low bits of the double, from where it is shifted into
        # the exponent of a double that is 2**n.
        shifted = builder.bitcast(builder.fadd(n, _constant(6755399441055744.0)), _LONGS)
        power = builder.shl(builder.add(shifted, _long_constant(1023)), _long_constant(52))
        result = builder.fmul(series, builder.bitcast(power, _DOUBLES))
        gone = builder.fcmp_ordered("<", args[0], _constant(-708.0))
        return builder.select(gone, _constant(0.0), result)

    return lanes_type(value), codegen


def _define_operator(symbol, name: str, flags=()) -> None:
    """Let `symbol`, such as ``operator.add``, mean the instruction `name` between lanes.

    Typed and lowered directly, because an ``overload`` is a function that numba compiles, and calls, at every use.
    """

    @infer_global(symbol)
    class _Typed(ConcreteTemplate):
        cases = (typing_signature(lanes_type, lanes_type, lanes_type),)

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
