"""One family of exceptions: every error says what was given, what is legal and what to do next."""


class EquipoiseError(Exception):
    """Base of everything equipoise raises on purpose."""


class InputError(EquipoiseError, ValueError):
    """An argument is not what the function takes."""


class InvalidRowsError(InputError):
    """Rows without a direction: zero, NaN or infinite ones.

    ``rows`` holds the first of their indices.
    """

    def __init__(self, message: str, rows: tuple[int | tuple[int, ...], ...] = (), count: int = 0):
        super().__init__(message)
        self.rows = rows
        self.count = count


class ArtefactError(EquipoiseError):
    """A file is damaged, of a newer format, or not one of ours."""


class EncoderMismatchError(EquipoiseError):
    """An attribute space met embeddings of another encoder."""


class ServiceError(EquipoiseError):
    """A server did not do what was asked of it: wrong address, no permission, no answer."""


class MissingExtraError(EquipoiseError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, what: str, package: str, extra: str):
        super().__init__(
            f"{what} needs {package}, which is not installed. Type: pip install"
            f' "equipoise[{extra}]"'
        )
        self.extra = extra
