"""Who a node is to a NATS server, and how it knows the server: TLS of each kind, certificates, NKeys, credentials."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from orchestrator.adapters.bus import open_bus
from orchestrator.core.errors import BusAway, InvalidRequest
from orchestrator.testing.bus_hints import LONG_S, Server
from orchestrator.testing.drafts import refused
from tests.adapters.bus.test_nats import foreign_server, opened
from tests.certificates import USER, Authority, NKey, Operator, rules
from tests.nats_servers import NatsServer
from tests.waiting import HANG_S

SECRET = "xyzzy-plugh"


async def works(*urls: str) -> None:
    """Two nodes there hear each other."""
    async with opened(*(urls * 2)[:2]) as (one, two):
        two.serve("a", Server("two"))
        await two.flush()
        assert (await one.request("a", {}, b"x" * 2_000_000, within_s=LONG_S)).payload["by"] == "two"


def tls(authority: Authority, *more: str, host: str = "127.0.0.1") -> list[str]:
    certificate, key = authority.vouch(host)
    return ["tls {", f'cert_file: "{certificate}"', f'key_file: "{key}"', *more, "}"]


# -- TLS ---------------------------------------------------------------------------------------


async def test_an_authority_is_named_in_the_url(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    with NatsServer("-c", str(rules(tls(authority), tmp_path / "conf"))) as server:
        at = f"tls://127.0.0.1:{server.port}"
        await works(f"{at}?tlsca={authority.file}")
        refusal = await refused(BusAway, open_bus(f"{at}?tlsca={other.file}").open())
        assert "certificate that is not to be trusted" in refusal.message
        assert "tlsca=FILE" in refusal.remedy
        # The scheme promises nothing, the server demands it: the certificate is looked at all the same.
        plain = await refused(BusAway, open_bus(f"nats://127.0.0.1:{server.port}").open())
        assert "certificate that is not to be trusted" in plain.message


async def test_a_server_that_only_offers_tls_is_spoken_to_over_tls_where_the_url_wants_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    conf = rules([*tls(authority), "allow_non_tls: true"], tmp_path / "conf")
    with NatsServer("-c", str(conf), "--auth", SECRET) as server:
        place = f"{SECRET}@127.0.0.1:{server.port}"
        await works(f"tls://{place}?tlsca={authority.file}", f"nats://{place}")
        refusal = await refused(BusAway, open_bus(f"tls://{place}?tlsca={other.file}").open())
    assert "certificate that is not to be trusted" in refusal.message
    assert SECRET not in str(refusal) + caplog.text


async def test_tls_comes_first_where_the_url_says_so(tmp_path: Path) -> None:
    """Without that, whoever reads the error is told what to add."""
    authority = Authority(tmp_path)
    conf = rules(tls(authority, "handshake_first: true"), tmp_path / "conf")
    with NatsServer("-c", str(conf), says_first=False) as server:
        url = f"tls://127.0.0.1:{server.port}?tlsca={authority.file}"
        await works(f"{url}&tlsfirst=true")
        refusal = await refused(BusAway, open_bus(url).open())
    assert "tlsfirst=true" in refusal.remedy


async def test_a_node_shows_its_certificate_and_that_may_be_all_that_says_who_it_is(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    certificate, key = authority.vouch("node.example.org")
    both = tmp_path / "both.pem"
    both.write_bytes(certificate.read_bytes() + key.read_bytes())
    demands = tls(authority, f'ca_file: "{authority.file}"', "verify_and_map: true")
    conf = rules([*demands, 'authorization { users = [ { user: "node.example.org" } ] }'], tmp_path / "conf")
    with NatsServer("-c", str(conf)) as server:
        url = f"tls://127.0.0.1:{server.port}?tlsca={authority.file}"
        await works(f"{url}&tlscert={certificate}&tlskey={key}", f"{url}&tlscert={both}")
        without = await refused(BusAway, open_bus(url).open())
        assert "wants to see a certificate" in without.message
        assert "tlscert=FILE&tlskey=FILE" in without.remedy
        strange, its_key = other.vouch("stranger.example.org")
        await refused(BusAway, open_bus(f"{url}&tlscert={strange}&tlskey={its_key}").open())
        unknown, its_key = authority.vouch("unknown.example.org")
        nobody = await refused(BusAway, open_bus(f"{url}&tlscert={unknown}&tlskey={its_key}").open())
        assert "does not let this node in" in nobody.message
        assert "tlscert=FILE" in nobody.remedy


# -- users -------------------------------------------------------------------------------------


async def test_an_nkey_opens_the_server(tmp_path: Path) -> None:
    mine, strange = NKey(USER), NKey(USER)
    conf = rules([f"authorization {{ users = [ {{ nkey: {mine.public} }} ] }}"], tmp_path / "conf")
    seed, wrong = tmp_path / "seed.nk", tmp_path / "wrong.nk"
    seed.write_text(f"{mine.seed}\n")
    wrong.write_text(strange.seed)
    with NatsServer("-c", str(conf)) as server:
        await works(f"{server.url}/base?nkey={seed}")
        refusal = await refused(BusAway, open_bus(f"{server.url}?nkey={wrong}").open())
    assert "does not let this node in" in refusal.message
    assert "nkey=FILE" in refusal.remedy


async def test_a_credentials_file_opens_a_server_that_has_an_operator(tmp_path: Path) -> None:
    operator = Operator()
    with NatsServer("-c", str(rules([operator.rules], tmp_path / "conf"))) as server:
        await works(f"{server.url}?creds={operator.user(tmp_path / 'bus.creds')}")
        stranger = Operator().user(tmp_path / "stranger.creds")
        refusal = await refused(BusAway, open_bus(f"{server.url}?creds={stranger}").open())
    assert "does not let this node in" in refusal.message
    assert "creds=FILE" in refusal.remedy


async def test_credentials_that_run_out_are_read_anew_from_their_file(tmp_path: Path) -> None:
    """The server ends the connection then; whoever renewed the file in time need not start the node again."""
    operator, file = Operator(), tmp_path / "bus.creds"
    with NatsServer("-c", str(rules([operator.rules], tmp_path / "conf"))) as server:
        operator.user(file, until=int(time.time()) + 2)
        async with opened(f"{server.url}?creds={file}") as (bus,):
            old = bus._line  # type: ignore[attr-defined]
            operator.user(file)
            async with asyncio.timeout(HANG_S):
                await old.lost.wait()
            await _until(lambda: bus.connected)


async def test_a_file_that_is_lost_while_the_node_runs_is_said_and_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    operator, file = Operator(), tmp_path / "bus.creds"
    with NatsServer("-c", str(rules([operator.rules], tmp_path / "conf"))) as server:
        operator.user(file)
        async with opened(f"{server.url}?creds={file}") as (bus,):
            kept = file.rename(tmp_path / "kept")
            server.kill()
            server.start()
            await _until(lambda: "creds" in caplog.text)
            kept.rename(file)
            await _until(lambda: bus.connected)
    assert "Traceback" not in caplog.text


async def test_a_key_is_not_sent_to_a_server_that_asks_for_none(tmp_path: Path, nats_server: NatsServer) -> None:
    seed = tmp_path / "seed.nk"
    seed.write_text(NKey(USER).seed)
    refusal = await refused(BusAway, open_bus(f"{nats_server.url}?nkey={seed}").open())
    assert "asks for no key" in refusal.message


# -- files and options that are of no use ---------------------------------------------------------


def test_a_file_that_is_of_no_use_is_refused_at_once_and_named(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.vouch("a.example.org")
    _, other_key = authority.vouch("b.example.org")
    locked = tmp_path / "locked.key"
    secret = BestAvailableEncryption(SECRET.encode())
    locked.write_bytes(
        load_pem_private_key(key.read_bytes(), None).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, secret)
    )
    words, account, cut = tmp_path / "words", tmp_path / "account.nk", tmp_path / "cut.nk"
    words.write_text("nothing of use")
    account.write_text(NKey(0).seed)
    cut.write_text(NKey(USER).seed[:-1])
    for scheme, options, told in (
        ("nats", f"creds={tmp_path}/none", "No such file"),
        ("nats", f"creds={words}", "not both"),
        ("nats", f"nkey={tmp_path}", "Is a directory"),
        ("nats", f"nkey={words}", "begins with SU"),
        ("nats", f"nkey={account}", "begins with SU"),
        ("nats", f"nkey={cut}", "begins with SU"),
        ("tls", f"tlsca={words}", "no certificate"),
        ("tls", f"tlsca={tmp_path}/none", "No such file"),
        ("tls", f"tlscert={certificate}&tlskey={other_key}", "not a certificate and its own key"),
        ("tls", f"tlscert={certificate}&tlskey={locked}", "without a password"),
        ("tls", f"tlscert={certificate}", "not a certificate and its own key"),
        ("tls", f"tlscert={certificate}&tlskey={key}x", "No such file"),
    ):
        with pytest.raises(InvalidRequest) as refusal:
            open_bus(f"{scheme}://h?{options}")
        assert told in refusal.value.message, options
        assert "PEM_read" not in refusal.value.message
        assert "--bus" in refusal.value.remedy


@pytest.mark.parametrize(
    ("url", "told"),
    [
        (f"nats://{SECRET}@h?creds=f", "only one of them"),
        (f"nats://h,ann:{SECRET}@g?nkey=f", "only one of them"),
        ("nats://h?nkey=f&creds=f", "only one of them"),
        ("nats://h?tlsca=f", "need tls://"),
        ("nats://h?tlscert=f", "need tls://"),
        ("nats://h?tlsfirst=true", "need tls://"),
        ("tls://h?tlskey=f", "without tlscert"),
        ("tls://h?tlsfirst=yes", "true or false"),
        ("tls://h?tlsca=", "with a value"),
        ("tls://h?tlsca=f&tlsca=g", "once each"),
        (f"tls://h?password={SECRET}", "nothing else"),
        ("tls://h?", "once each"),
    ],
)
def test_options_that_contradict_are_refused(url: str, told: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        open_bus(url)
    assert told in refusal.value.message
    assert "creds=FILE" in refusal.value.remedy
    assert SECRET not in str(refusal.value)


async def test_servers_that_a_stranger_names_before_tls_begins_are_not_believed(tmp_path: Path) -> None:
    """What is said in the clear is anybody's; the password would go there the next time."""
    authority = Authority(tmp_path)
    async with foreign_server(connect_urls=["evil.example.org:4222"], tls_required=True) as (address, sent):
        bus = open_bus(f"tls://{address}?tlsca={authority.file}")
        await refused(BusAway, bus.open())
        assert [server.host for server in bus._servers.in_turn()] == ["127.0.0.1"]  # type: ignore[attr-defined]
    assert SECRET.encode() not in b"".join(sent)


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(HANG_S):
        while not holds():  # noqa: ASYNC110 - what it looks at tells nobody
            await asyncio.sleep(0.01)
