"""One model on several NPUs: products are divided by their columns, and what the next one needs is gathered.

Each column of a product is computed on one device, in the order of a single device, so no bit depends on the
number of devices.
"""

from echo_npu.sharding.devices import DeviceGroup, Spent
from echo_npu.sharding.layer import ShardedLayer
from echo_npu.sharding.linear import ShardedLinear
from echo_npu.sharding.network import ShardedNetwork
from echo_npu.sharding.report import ShardReport

__all__ = ["DeviceGroup", "ShardReport", "ShardedLayer", "ShardedLinear", "ShardedNetwork", "Spent"]
