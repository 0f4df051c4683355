"""Operations on arrays, made of commands: a module for each family.

Every operation takes numpy arrays or `DeviceTensor`s. It returns a numpy array if all of them are numpy
arrays, else a DeviceTensor. The device does all arithmetic; what it cannot do is an error.

A family's functions take the device first; `methods.OpMethods` makes them methods of `Device`.
"""
