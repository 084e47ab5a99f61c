from api.http.failed_logins import FORGET_SECONDS, LONGEST_WAIT_SECONDS, MAX_ADDRESSES, FailedLogins


def waits_after_failures(count: int) -> list[float]:
    failed = FailedLogins()
    waits = []
    for _ in range(count):
        failed.add("10.0.0.1", 100.0)
        waits.append(failed.wait_seconds("10.0.0.1", 100.0))
    return waits


def test_the_wait_starts_after_three_failures_and_doubles() -> None:
    assert waits_after_failures(6) == [0, 0, 1, 2, 4, 8]
    assert waits_after_failures(2000)[-1] == LONGEST_WAIT_SECONDS


def test_the_wait_ends() -> None:
    failed = FailedLogins()
    for _ in range(4):
        failed.add("10.0.0.1", 100.0)
    assert failed.wait_seconds("10.0.0.1", 101.5) == 0.5
    assert failed.wait_seconds("10.0.0.1", 102.0) == 0


def test_addresses_are_counted_apart_and_cleared() -> None:
    failed = FailedLogins()
    assert [failed.add(address, 0.0) for address in ("10.0.0.1", "10.0.0.2", "10.0.0.1")] == [1, 1, 2]
    failed.clear("10.0.0.1")
    assert failed.add("10.0.0.1", 0.0) == 1


def test_an_ipv6_network_is_one_address() -> None:
    failed = FailedLogins()
    addresses = ("2001:db8::1", "2001:db8:0:0:ffff::2", "2001:db8:0:1::1", "::ffff:10.0.0.1", "10.0.0.1", "unknown")
    assert [failed.add(address, 0.0) for address in addresses] == [1, 2, 1, 1, 2, 1]


def test_an_hour_without_a_failure_starts_again() -> None:
    failed = FailedLogins()
    for _ in range(5):
        failed.add("10.0.0.1", 0.0)
    assert failed.add("10.0.0.1", FORGET_SECONDS + 1) == 1


def test_the_table_is_bounded() -> None:
    failed = FailedLogins()
    for number in range(MAX_ADDRESSES + 1):
        failed.add(f"address {number}", 0.0)
    assert failed.add("address 1", 0.0) == 2
    assert failed.add("address 0", 0.0) == 1
