"""Which consumers keep their offsets in a file, and that a later process finds it."""

from pathlib import Path
from typing import Any

import pytest

from broker_core.client import DefaultLitePullConsumer, DefaultMQPushConsumer, MQClientException, MQClientInstance
from broker_core.client.consumer.local_file_offset_store import LocalFileOffsetStore
from broker_core.client.consumer.remote_broker_offset_store import RemoteBrokerOffsetStore
from tests.fakes.virtual_cluster import NAMESRV


@pytest.mark.parametrize("kind", [DefaultMQPushConsumer, DefaultLitePullConsumer])
def test_in_broadcasting_a_client_whose_id_changes_is_refused(kind: Any, tmp_path: Path) -> None:
    options = {"message_model": "BROADCASTING", "local_offset_store_dir": str(tmp_path)}
    with pytest.raises(MQClientException, match="is another one after each start: give MQClientInstance an instance_n"):
        kind("g", instance=MQClientInstance(NAMESRV), **options)
    for fixed in ({"client_id": "c"}, {"instance_name": "DEFAULT"}):
        consumer = kind("g", instance=MQClientInstance(NAMESRV, **fixed), **options)
        assert isinstance(consumer.offset_store, LocalFileOffsetStore)
    assert isinstance(kind("g", instance=MQClientInstance(NAMESRV)).offset_store, RemoteBrokerOffsetStore)
