"""The metrics page, read as Prometheus reads it."""

import httpx
from prometheus_client.parser import text_string_to_metric_families

A = (("broker", "broker-a"),)
"""The labels of a metric of the only broker."""


async def scraped(client: httpx.AsyncClient) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    answer = await client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }
