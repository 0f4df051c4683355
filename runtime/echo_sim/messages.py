"""Say in a sentence what an error of the system means to whoever typed a command."""


def sentence(error: Exception) -> str:
    """Return an error's message; of a file that the system refused, its name and the reason.

    Python's own text of the latter begins with a number: `[Errno 2] No such file or directory: 'x'`.
    """
    if isinstance(error, OSError) and isinstance(error.filename, str) and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)
