"""Which entries of a tile of products are large enough to be kept: sixteen of them in one comparison."""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from asbc.kernels.lanes import spread

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

        limit, own_half = (spread(builder, product.type, value) for value in args[5:])
        by_row = builder.fcmp_ordered(">", builder.fsub(product, halves), limit)
        by_column = builder.fcmp_ordered(">", builder.fsub(product, own_half), bounds)
        bits = builder.bitcast(builder.or_(by_row, by_column), ir.IntType(ABREAST))
        return builder.zext(bits, ir.IntType(64))

    return types.int64(tile, types.intp, types.intp, half, limits, kind, kind), codegen


@intrinsic
def lowest_bit(typingctx, bits):
    """The place of the lowest bit that is set, of a whole number that is not 0."""

    def codegen(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), codegen
