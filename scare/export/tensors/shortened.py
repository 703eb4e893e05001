"""A graph with fewer operations and the same result, for a format in which every operator takes memory."""

from collections import Counter
from dataclasses import replace

from scare.export.tensors.alike import batch_alike
from scare.export.tensors.joined_products import join_products
from scare.kernels.tensor import Tensor, in_order


def shortened(result: Tensor) -> Tensor:
    """The tensor with sums of products joined, and with chains that are alike computed as one."""
    ordered = in_order(result)
    readers = Counter(id(part) for tensor in ordered for part in tensor.inputs)
    shorter: dict[int, Tensor] = {}
    for tensor in ordered:
        own = replace(tensor, inputs=tuple(shorter[id(part)] for part in tensor.inputs))
        if all(readers[id(part)] == 1 for part in tensor.inputs):  # else it would be computed twice
            own = join_products(own)
        shorter[id(tensor)] = batch_alike(own)
    return shorter[id(result)]
