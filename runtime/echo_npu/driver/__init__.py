"""What `Device` drives the hardware with: memory allocation, queues, transfers and recording."""
