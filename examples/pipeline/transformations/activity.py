"""The requests of the activity log as a table, and what they come to for each day."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

LINE = r'^\S+ \S+ \S+ \[[^\]]+\] "\S+ (\S+)[^"]*" (\d{3}) '


@dp.materialized_view
def requests() -> DataFrame:
    """One row for each request; page and status are null where a line is not what it should be."""
    spark = SparkSession.active()
    records = (
        spark.read.format("ottla")
        .option("path", spark.conf.get("ottla.example.path"))
        .option("subscribe", "activity")
        .load()
    )
    line = sql.col("value").cast("string")
    page = sql.regexp_extract(line, LINE, 1)
    return records.select(
        sql.col("key").cast("string").alias("visitor"),
        sql.col("timestamp").alias("time"),
        sql.when(page != "", page).alias("page"),
        sql.when(page != "", sql.regexp_extract(line, LINE, 2).cast("int")).alias("status"),
        "partition",
        "offset",
    )


@dp.materialized_view
def days() -> DataFrame:
    """Requests and visitors of each day (UTC)."""
    return (
        SparkSession.active()
        .read.table("requests")
        .groupBy(sql.to_date("time").alias("day"))
        .agg(sql.count("*").alias("requests"), sql.countDistinct("visitor").alias("visitors"))
    )
