"""The engine on a cluster: the same shard function under Ray Data.

Ray places pieces on nodes, and runs the pieces of lost nodes again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from equipoise import errors
from equipoise._engines.shard import Done, Job, Piece, run_piece
from equipoise.errors import EquipoiseError, MissingExtraError, ServiceError


def engine(address: str | None = None) -> Callable[[Job, list[Piece]], Iterator[Done]]:
    """Return the engine for ``apply``.

    address: of a cluster ("auto", "host:6379", "ray://host:10001"); None starts one on this
    machine, or takes the one in use.
    """
    return partial(run, address=address)


def device(address: str | None = None) -> str:
    """Return what the nodes compute on: "cuda" where the cluster has GPUs, else "cpu"."""
    return "cuda" if _gpus(_connected(address)) else "cpu"


def run(job: Job, pieces: list[Piece], address: str | None = None) -> Iterator[Done]:
    """Yield each piece as it is done, in any order.

    Every node must see the source and the destination under their names.
    """
    if not pieces:
        return
    ray = _connected(address)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False  # ours shows rows and bytes
    context.execution_options.preserve_order = False
    rows = [piece._asdict() for piece in pieces]
    items = ray.data.from_items(rows, override_num_blocks=len(pieces))
    if job.transform.device == "cpu":
        results = items.map(partial(_tell, job), num_cpus=1)
    else:
        most = max(1, _gpus(ray))
        results = items.map(OnGpu, fn_constructor_args=(job,), num_gpus=1, concurrency=(1, most))
    try:
        for row in results.iter_rows():
            if row["error"]:
                raise _error(row["error"], row["told"])
            yield Done.model_validate_json(row["told"])
    except ray.exceptions.RayError as error:
        raise ServiceError(
            f"the cluster gave up ({error}); when it is well again, go on with `resume`"
        ) from None


class OnGpu:
    """An actor that holds a GPU and runs one piece after the other on it."""

    def __init__(self, job: Job):
        self.job = job

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        return _tell(self.job, row)


def _tell(job: Job, row: dict[str, Any]) -> dict[str, Any]:
    """Return what became of a piece.

    A user's error comes back as words: Ray would wrap it, and would retry a piece that cannot
    succeed.
    """
    try:
        return {"error": "", "told": run_piece(job, Piece(**row)).model_dump_json()}
    except EquipoiseError as error:
        return {"error": type(error).__name__, "told": str(error)}


def _error(kind: str, told: str) -> EquipoiseError:
    """Return the error that ``_tell`` put into words.

    A node that lacks an extra must install it: the error then says that a node lacks it.
    """
    if kind == MissingExtraError.__name__:
        return ServiceError(f"on a node of the cluster: {told}")
    return getattr(errors, kind, EquipoiseError)(told)


def _gpus(ray: Any) -> int:
    return int(ray.cluster_resources().get("GPU", 0))


def _connected(address: str | None) -> Any:
    try:
        import ray
        import ray.data
    except ImportError:
        raise MissingExtraError("the ray engine", "ray", "ray") from None
    if not ray.is_initialized():
        try:
            ray.init(address=address, log_to_driver=False)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise ServiceError(
                f"there is no Ray cluster at {address or 'this machine'} ({error}); start one with:"
                " ray start --head"
            ) from None
    return ray
