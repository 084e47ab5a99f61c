from pathlib import Path

from broker_core.broker_conf import read_broker_conf


def test_a_broker_conf_is_read_as_rocketmq_reads_it(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text(
        "# a comment\n\nbrokerName = broker-x\nlongPollingEnable=false\nhaMasterAddress=1\nhaMasterAddress=2\n"
        "brokerRole=SLAVE\n"
    )
    known, unknown = read_broker_conf(conf)
    assert known == {"brokerName": "broker-x", "longPollingEnable": "false"}
    assert unknown == {"haMasterAddress": "2", "brokerRole": "SLAVE"}
