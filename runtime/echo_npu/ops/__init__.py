"""Operations on arrays, made of commands: a module for each family.

Every operation takes numpy arrays or `DeviceTensor`s. From numpy arrays alone comes a numpy array, else a
DeviceTensor. All arithmetic is the device's; what it cannot do is an error, never done elsewhere.

A family's functions take the device first; `methods.OpMethods` makes them methods of `Device`.
"""
