"""Many tasks at once, without anybody waiting for a single one.

    file of lines -> BatchLine -> BatchTask -> BatchRun -> BatchResult -> record -> Journal

BatchRun serves tasks in memory; `run_file` goes from file to file, and goes on where it was ended.
"""

from rase_models.batch.file import Progress, Summary, run_file
from rase_models.batch.run import BatchRun
from rase_models.batch.task import BatchLimits, BatchResult, BatchTask

__all__ = ["BatchLimits", "BatchResult", "BatchRun", "BatchTask", "Progress", "Summary", "run_file"]
