"""castleguard inside Apache Spark: `anonymise` for a DataFrame, streaming or not.

Spark owns partitions, checkpoints and recovery; the engine is the same. Only this package imports pyspark, and only
when one of its functions is called.
"""

from castleguard.spark.operator import anonymise, run_plan

__all__ = ["anonymise", "run_plan"]
