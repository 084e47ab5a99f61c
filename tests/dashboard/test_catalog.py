import json
import re

from django.test import Client


def test_the_catalog_of_the_scripts_may_be_kept_for_a_year() -> None:
    answer = Client(headers={"host": "localhost"}).get("/catalog/zh-hans.js?v=0")
    held = re.search(r'"Held pulls": ("[^"]*")', answer.content.decode())
    assert held is not None and json.loads(held[1]) == "挂起的拉取请求"
    assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    assert Client(headers={"host": "localhost"}).get("/catalog/de.js").status_code == 404
