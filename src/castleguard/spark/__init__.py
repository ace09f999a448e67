"""castleguard inside Apache Spark: `anonymise` for a DataFrame, streaming or not.

Spark owns partitions, checkpoints and recovery; the engine stays the same. Everything that imports pyspark is in this
package, and imports it when it is called.
"""

from castleguard.spark.operator import anonymise, run_plan

__all__ = ["anonymise", "run_plan"]
