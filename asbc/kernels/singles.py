"""Sixteen singles side by side: what :mod:`asbc.kernels.lanes` is, in single precision.

They take the room of eight doubles, so a loop that waits for memory does twice the work in the same time. For code
whose result is made exact afterwards.
"""

from __future__ import annotations

import operator

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.core.typing.templates import ConcreteTemplate, infer_global
from numba.core.typing.templates import signature as typing_signature
from numba.extending import intrinsic, lower_builtin, models, register_model

SINGLES = 16  # 64 bytes: one cache line
_FLOATS = ir.VectorType(ir.FloatType(), SINGLES)
_ZEROS = ir.Constant(_FLOATS, [ir.Constant(ir.FloatType(), 0.0)] * SINGLES)
_FUSE = ("contract",)  # lets LLVM turn a product and a sum into one fused instruction


class SinglesType(types.Type):
    """The compile-time type of a vector value."""

    def __init__(self) -> None:
        super().__init__(name="Singles")


singles_type = SinglesType()


@register_model(SinglesType)
class _SinglesModel(models.PrimitiveModel):
    def __init__(self, manager, fe_type):
        super().__init__(manager, fe_type, _FLOATS)


def _address(context, builder, array_type, array, offset):
    if array_type.ndim != 1 or array_type.layout != "C" or array_type.dtype != types.float32:
        raise TypingError(f"singles live in flat, contiguous float32 arrays, not in {array_type}")
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [offset]), _FLOATS.as_pointer())


@intrinsic
def load_singles(typingctx, array, offset):
    """Singles ``array[offset : offset + SINGLES]``."""

    def codegen(context, builder, signature, args):
        return builder.load(_address(context, builder, signature.args[0], *args), align=4)

    return singles_type(array, types.intp), codegen


@intrinsic
def store_singles(typingctx, array, offset, value):
    """Write singles to ``array[offset : offset + SINGLES]``."""

    def codegen(context, builder, signature, args):
        builder.store(args[2], _address(context, builder, signature.args[0], *args[:2]), align=4)
        return context.get_dummy_value()

    return types.void(array, types.intp, value), codegen


@intrinsic
def spread(typingctx, value):
    """The same number everywhere."""

    def codegen(context, builder, signature, args):
        first = builder.insert_element(ir.Constant(_FLOATS, ir.Undefined), args[0], ir.IntType(32)(0))
        mask = ir.Constant(ir.VectorType(ir.IntType(32), SINGLES), [0] * SINGLES)
        return builder.shuffle_vector(first, ir.Constant(_FLOATS, ir.Undefined), mask)

    return singles_type(types.float32), codegen


@intrinsic
def largest_size(typingctx, value, other):
    """The larger of ``value`` and ``|other|``, one by one."""

    def codegen(context, builder, signature, args):
        def call(name, values):
            function_type = ir.FunctionType(_FLOATS, [_FLOATS] * len(values))
            function = cgutils.get_or_insert_function(builder.module, function_type, f"llvm.{name}.v{SINGLES}f32")
            return builder.call(function, values)

        return call("maxnum", [args[0], call("fabs", [args[1]])])

    return singles_type(value, other), codegen


@intrinsic
def share_of(typingctx, part, whole):
    """``part / whole`` one by one; 0 where the whole is not above 0."""

    def codegen(context, builder, signature, args):
        positive = builder.fcmp_ordered(">", args[1], _ZEROS)
        ones = ir.Constant(_FLOATS, [ir.Constant(ir.FloatType(), 1.0)] * SINGLES)
        quotient = builder.fdiv(args[0], builder.select(positive, args[1], ones))
        return builder.select(positive, quotient, _ZEROS)

    return singles_type(part, whole), codegen


def _define_operator(symbol, name: str) -> None:
    """Let `symbol`, such as ``operator.add``, mean the instruction `name` between singles."""

    @infer_global(symbol)
    class _Typed(ConcreteTemplate):
        cases = (typing_signature(singles_type, singles_type, singles_type),)

    @lower_builtin(symbol, singles_type, singles_type)
    def _lowered(context, builder, signature, args):
        return getattr(builder, name)(*args, flags=_FUSE)


for _symbol, _name in ((operator.add, "fadd"), (operator.sub, "fsub"), (operator.mul, "fmul")):
    _define_operator(_symbol, _name)
