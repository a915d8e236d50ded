"""The errors that a call can raise."""

from __future__ import annotations

from typing import Any, Dict, List, Optional


class UnderstudyError(Exception):
    """A problem between this client and the service."""

    retryable = False


class ServiceConnectionError(UnderstudyError):
    """There was no connection, or it broke before the answer was complete."""

    retryable = True

    def __init__(self, message: str, unsent: bool) -> None:
        super().__init__(message)
        self.unsent = unsent
        """The request cannot have reached the service, so sending it again repeats nothing."""


class ServiceTimeoutError(UnderstudyError):
    """The service did not answer within the call's time limit, which includes retries."""

    retryable = True


class CircuitOpenError(UnderstudyError):
    """Nothing was sent: the service has recently failed or not answered, and the client waits before the next request."""

    retryable = True


class UnexpectedAnswerError(UnderstudyError):
    """The answer does not have the format of this API, or is too long. Another program probably listens at the address."""


class ApiError(UnderstudyError):
    """An answer with an error status."""

    def __init__(self, status: int, detail: object, retry_after: Optional[float], request_id: Optional[str]) -> None:
        self.status = status
        faults = detail if isinstance(detail, list) else []
        self.violations: List[Dict[str, Any]] = [one for one in faults if isinstance(one, dict)]
        """The faults, field by field; empty unless the status is 422."""
        self.retry_after = retry_after
        """Seconds to wait before the next attempt, if the service names them."""
        self.request_id = request_id
        """The request's name in the service's log."""
        words = "; ".join(f"{'.'.join(map(str, one.get('loc', ())))}: {one.get('msg')}" for one in self.violations)
        super().__init__(detail if isinstance(detail, str) else words or f"HTTP {status}")
        self.retryable = status == 429 or status >= 500


class AuthenticationError(ApiError):
    """401: the key is missing, unknown or revoked."""


class PermissionDeniedError(ApiError):
    """403: the key is valid but not allowed to do this."""


class NotFoundError(ApiError):
    """404: the requested object does not exist, or another organization owns it."""


class ConflictError(ApiError):
    """409: the request conflicts with the present state of an object."""


class ValidationError(ApiError):
    """422: a field is invalid."""


class RateLimitError(ApiError):
    """429: too many requests."""


class ServerError(ApiError):
    """5xx: the service failed."""


ERRORS = {
    401: AuthenticationError,
    403: PermissionDeniedError,
    404: NotFoundError,
    409: ConflictError,
    422: ValidationError,
    429: RateLimitError,
}
