"""How `Device` drives the hardware: memory allocation, queues, transfers and recording."""
