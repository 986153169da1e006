"""The file of a trial's out-of-sample bars: what the policy held and earned on every one of them.

Returns and costs are stored in float32: seven digits of a return move a statistic by less than a millionth
of itself, far below what is printed, and halve the file. Positions stay in float64, because few different
ones occur, so that a dictionary makes them small, and because signals are compared with them bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import numpy.typing as npt

from trainer.errors import DataError
from trainer.whole_file import whole_file

EVALUATION_FILE = "evaluation.parquet"
YOUNGER = ("cost", "impact")  # columns that older files lack
# Of columns in which hardly a value repeats: steps of time, and bytes of floats side by side by their place.
ENCODINGS = {"time": "DELTA_BINARY_PACKED", "ret": "BYTE_STREAM_SPLIT"}


BarKeys = npt.NDArray[np.void]  # [R] (fold, time) of rows, comparable as one value


@dataclass(frozen=True)
class EvaluationRows:
    """One row per scored bar of every seed and fold; all arrays [R], in any order of seeds and folds.

    Attributes:
        seed: int64, the seed's value.
        fold: int64, fold index in time order.
        time: int64, nanoseconds since 1970 UTC of the close that ends the return.
        ret: float64, net return of the bar, 0.01 = 1 %; exactly -1 in the bar of a bankruptcy.
        position: float64, exposure held into that close, in [-1, 1].
        benchmark: float64, return of the same bar for a constant exposure of 1 without costs.
        cost: float64, what the bar's trades cost, a fraction of equity; already taken off ``ret``. NaN in a
            file that is older than this column.
        impact: float64, the part of it that the square-root impact took; NaN likewise.
    """

    seed: npt.NDArray[np.int64]
    fold: npt.NDArray[np.int64]
    time: npt.NDArray[np.int64]
    ret: npt.NDArray[np.float64]
    position: npt.NDArray[np.float64]
    benchmark: npt.NDArray[np.float64]
    cost: npt.NDArray[np.float64]
    impact: npt.NDArray[np.float64]

    def __post_init__(self) -> None:
        sizes = {field.name: getattr(self, field.name).shape for field in fields(self)}
        if len(set(sizes.values())) != 1 or len(self.seed.shape) != 1:
            raise ValueError(f"all columns must be [R] with the same R, but got {sizes}")

    def select(self, seed: int, fold: int | None = None) -> EvaluationRows:
        """Returns one seed's rows in time order, of one fold or of all."""
        chosen = self.seed == seed
        if fold is not None:
            chosen &= self.fold == fold
        index = np.flatnonzero(chosen)
        index = index[np.lexsort((self.time[index], self.fold[index]))]
        return EvaluationRows(*(getattr(self, field.name)[index] for field in fields(self)))

    def of_each_seed(self) -> list[EvaluationRows]:
        """Returns :meth:`select` of every seed, in the order of their values."""
        return [self.select(int(seed)) for seed in np.unique(self.seed)]

    def longest_seed(self) -> EvaluationRows:
        """Returns the rows of the first seed that has most of them: a bankruptcy ends those of a fold."""
        return max(self.of_each_seed(), key=lambda own: own.ret.size)

    def bar_keys(self) -> BarKeys:
        """Returns the bar of every row; those of one seed's :meth:`select` are sorted."""
        keys = np.empty(self.fold.size, dtype=[("fold", np.int64), ("time", np.int64)])
        keys["fold"], keys["time"] = self.fold, self.time
        return keys


def write_evaluation(path: Path, rows: EvaluationRows) -> None:
    """Writes ``rows`` as Parquet, replacing ``path`` in one step; the folder must exist."""
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    columns = {
        "seed": arrow.array(rows.seed, arrow.int64()),
        "fold": arrow.array(rows.fold, arrow.int64()),
        "time": arrow.array(rows.time, arrow.int64()).cast(arrow.timestamp("ns", tz="UTC")),
        "ret": arrow.array(rows.ret.astype(np.float32)),
        "position": arrow.array(rows.position, arrow.float64()),
        "benchmark": arrow.array(rows.benchmark.astype(np.float32)),
        "cost": arrow.array(rows.cost.astype(np.float32)),
        "impact": arrow.array(rows.impact.astype(np.float32)),
    }
    with whole_file(path) as partial:
        parquet.write_table(
            arrow.table(columns),
            partial,
            compression="zstd",
            use_dictionary=[name for name in columns if name not in ENCODINGS],
            column_encoding=ENCODINGS,
        )


def read_evaluation(path: Path) -> EvaluationRows:
    """Reads a file written by `write_evaluation`.

    Raises:
        DataError: The file is missing, torn, or lacks a column.
    """
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    names = [field.name for field in fields(EvaluationRows)]
    try:
        # Opened here, because a path handed to Arrow may be taken for a data set of many files.
        with path.open("rb") as source:
            table = parquet.read_table(source)
    except (OSError, arrow.ArrowException) as error:
        first_line = str(error).splitlines()[0]
        raise DataError(f"{path}: no readable evaluation ({first_line}); run the trial again") from None
    missing = [name for name in names if name not in (*table.column_names, *YOUNGER)]
    if missing:
        raise DataError(f"{path}: column {missing[0]} not found; found {table.column_names}")
    time = table["time"].cast(arrow.int64())

    def younger(name: str) -> npt.NDArray[np.float64]:
        if name not in table.column_names:
            return np.full(len(table), np.nan)
        return np.asarray(table[name].to_numpy(), dtype=np.float64)

    return EvaluationRows(
        seed=table["seed"].to_numpy().astype(np.int64),
        fold=table["fold"].to_numpy().astype(np.int64),
        time=time.to_numpy().astype(np.int64),
        ret=table["ret"].to_numpy().astype(np.float64),
        position=table["position"].to_numpy().astype(np.float64),
        benchmark=table["benchmark"].to_numpy().astype(np.float64),
        cost=younger("cost"),
        impact=younger("impact"),
    )
