"""Notifications on their way out: signed webhooks, pushes to browsers, and all services that apprise knows.

Theory. An address comes from a person whom the host need not trust. So a webhook of somebody who is no admin goes by
https to public addresses only: the name is looked up here, and the connection goes to the very address that was looked
at, so that the name cannot mean another one a moment later. Redirects are not followed, no proxy of the environment is
used, the answer's body is not read, and an attempt ends after SEND_S. Webhooks are signed as standardwebhooks.com says.
The push service of a browser is an address that a person names, too: the same holds for it.
"""

import asyncio
import base64
import hashlib
import hmac
import ipaddress
import logging
import re
import secrets
import socket
import ssl
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache, cached_property
from types import ModuleType
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2

from orchestrator.core.errors import InvalidRequest, NotFound
from orchestrator.core.ports import Message

SEND_S: Final = 10.0
"""An attempt that takes longer has failed."""
MOST_URL: Final = 2000
FIXED_SERVICES: Final = frozenset({"discord", "pbul", "pover", "slack", "tgram"})
"""Services of apprise whose URLs name no host: whatever stands there, a message goes to the service."""
KEY_PREFIX: Final = "whsec_"
PUSH: Final = "webpush"
"""The scheme of a browser's push subscription: ``webpush:ENDPOINT#P256DH.AUTH``."""
_GONE: Final = (404, 410)
_SCHEME: Final = re.compile("[a-z][a-z0-9+.-]{0,30}")
_BARE_IPV6: Final = re.compile("(https?://)([0-9a-f]*:[0-9a-f:.]*:[0-9a-f:.]*)(?:[/?#]|$)", re.I)
"""A URL whose host is an IPv6 address without its brackets."""
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")
_UNICAST: Final = ipaddress.ip_network("2000::/3")


def signature(key: str, message_id: str, at: int, body: bytes) -> str:
    """The header ``webhook-signature``; ``at``: the header ``webhook-timestamp``, in seconds since 1970."""
    signed = f"{message_id}.{at}.".encode() + body
    digest = hmac.new(base64.b64decode(key.removeprefix(KEY_PREFIX)), signed, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


class Messengers:
    """The port ``Messenger``: https and http are webhooks, webpush is for browsers, other schemes are apprise's."""

    def __init__(self, secret: str = "", page: str = "") -> None:
        """``secret``: that of the installation, from which its key for pushes comes; empty: it sends none.

        ``page``: the address of the page, of which push services are told.
        """
        self._secret = secret
        self._contact = page if page.startswith("https:") else "mailto:cc-orchestrator@localhost"

    async def check(self, url: str, *, trusted: bool) -> str:
        """The port's ``check``."""
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname, parts.port
            httpx2.URL(url)
        except (ValueError, httpx2.InvalidURL):
            bare = _BARE_IPV6.match(url)
            why = f"An IPv6 address is written in brackets: {bare[1]}[{bare[2]}]/…" if bare else None
            raise _no_address(why or "Its host or port cannot be read.") from None
        if len(url) > MOST_URL or not url.isascii() or re.search(r"[\s\x00-\x1f]", url) or not _known(parts.scheme):
            raise _no_address("It is no URL.")
        if parts.scheme == PUSH:
            return await self._check_push(url, trusted=trusted)
        if parts.scheme not in ("http", "https"):
            if not trusted and parts.scheme not in FIXED_SERVICES:
                services = ", ".join(sorted(FIXED_SERVICES))
                raise _no_address(
                    f"{parts.scheme}: is not a webhook. Everybody may use https: URLs, which are webhooks, and URLs of "
                    f"{services}; only admins may use other services, such as mailtos: for mail."
                )
            # The first look at one imports all services of apprise.
            await asyncio.to_thread(_service, url)
            return f"{parts.scheme}://…"
        if not host:
            raise _no_address("It names no host.")
        if not trusted and parts.scheme != "https":
            raise _no_address("Only admins may use http, which anybody on the way can read.")
        if not trusted and _is_address(host) and not is_public(host):
            raise _no_address("Only admins may use loopback and private addresses.")
        return f"{parts.scheme}://{host}/…"

    async def _check_push(self, url: str, *, trusted: bool) -> str:
        endpoint, _, keys = url.removeprefix(f"{PUSH}:").partition("#")
        if self.push_key() is None:
            raise InvalidRequest(
                "Pushes to a browser need the package cryptography, which is not installed on the server.",
                remedy="Install it there with `pip install 'cc-orchestrator[notify]'`, or use a webhook.",
            )
        if not endpoint.startswith(("http:", "https:")):
            raise _no_address("The push service of a browser has an https: address.")
        try:
            _web_push().subscription(endpoint, keys)
        except ValueError:
            raise _no_address("Behind its # are the two keys of a browser, as P256DH.AUTH.") from None
        return f"{PUSH}:{await self.check(endpoint, trusted=trusted)}"

    def new_key(self) -> str:
        """The port's ``new_key``."""
        return KEY_PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()

    def push_key(self) -> str | None:
        """The port's ``push_key``."""
        try:
            return str(_web_push().public_key(self._vapid)) if self._secret else None
        except ModuleNotFoundError as missing:
            if (missing.name or "").partition(".")[0] != "cryptography":
                raise
            return None

    @cached_property
    def _vapid(self) -> Any:
        return _web_push().signing_key(self._secret)

    async def send(self, url: str, key: str, message: Message, *, at: datetime, private: bool) -> str:
        """The port's ``send``."""
        parts = urlsplit(url)
        by_apprise = parts.scheme not in ("http", "https", PUSH)
        who = "The service" if by_apprise else urlsplit(_endpoint(url)).hostname or ""
        try:
            async with asyncio.timeout(SEND_S):
                if by_apprise:
                    return await _apprise(url, message.text)
                headers, body = self._request(url, key, message, at)
                status = await _post(_endpoint(url), headers, body, private=private)
                if parts.scheme == PUSH and status in _GONE:
                    raise NotFound(f"The browser's subscription at {who} is over.", remedy="Turn it on again there.")
                return _judged(who, status)
        except TimeoutError:
            return f"{who} did not answer within {SEND_S:.0f} s."
        except (OSError, ValueError, httpx2.HTTPError, httpx2.InvalidURL) as error:
            return _unreachable(who, urlsplit(_endpoint(url)).port, error)
        except InvalidRequest as error:
            return f"{error.message} {error.remedy}"

    def _request(self, url: str, key: str, message: Message, at: datetime) -> tuple[Mapping[str, str], bytes]:
        """The headers and the body for a webhook or a browser."""
        if url.startswith(f"{PUSH}:"):
            push = _web_push()
            to = push.subscription(_endpoint(url), url.partition("#")[2])
            headers, body = push.request_of(to, message, self._vapid, contact=self._contact, at=at)
            return headers, body
        seconds = round(at.timestamp())
        return {
            "Content-Type": "application/json",
            "webhook-id": message.message_id,
            "webhook-timestamp": str(seconds),
            "webhook-signature": signature(key, message.message_id, seconds, message.body),
        }, message.body


def _web_push() -> ModuleType:
    """The module that encrypts; raises ModuleNotFoundError where the package cryptography is missing."""
    from orchestrator.adapters import web_push

    return web_push


def _endpoint(url: str) -> str:
    """Where the request for a webhook or a browser goes."""
    return url.removeprefix(f"{PUSH}:").partition("#")[0] if url.startswith(f"{PUSH}:") else url


def _known(scheme: str) -> bool:
    return _SCHEME.fullmatch(scheme) is not None


def _no_address(why: str) -> InvalidRequest:
    return InvalidRequest(
        f"Messages cannot go to this address. {why}",
        remedy="Give the URL of a webhook, such as https://HOST/PATH, or one of apprise (docs/notifications.md).",
    )


# -- webhooks and browsers ---------------------------------------------------------------


async def _post(url: str, headers: Mapping[str, str], body: bytes, *, private: bool) -> int:
    """The status of the answer."""
    meant = httpx2.URL(url)
    addresses: Sequence[str] = [meant.host]
    if not private:
        addresses = await _looked_up(meant)
        if not addresses or not all(map(is_public, addresses)):
            raise InvalidRequest(
                f"{meant.host} leads to an address that is not public.", remedy="Only admins may add such an address."
            )
    headers = {"Host": meant.netloc.decode("ascii"), "User-Agent": "cc-orchestrator", **headers}
    named = {"sni_hostname": meant.raw_host.decode("ascii")}
    tls = _tls() if meant.scheme == "https" else False
    async with httpx2.AsyncClient(verify=tls, trust_env=False, follow_redirects=False, timeout=SEND_S) as client:
        for last, address in enumerate(addresses, 1 - len(addresses)):
            target = meant.copy_with(host=address)
            try:
                async with client.stream("POST", target, content=body, headers=headers, extensions=named) as answer:
                    return answer.status_code
            except httpx2.ConnectError:
                if not last:
                    raise
    raise AssertionError("there is an address, and the last one raises")


@cache
def _tls() -> ssl.SSLContext:
    """The authorities that are trusted: to read them takes longer than to send a message."""
    return httpx2.create_ssl_context(trust_env=False)


def _unreachable(host: str, port: int | None, error: Exception) -> str:
    """Why there is no answer, as a sentence; the error's own text may have the address."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, socket.gaierror):
            return f"The name {host} was not found."
        if isinstance(cause, ConnectionRefusedError):
            return f"Nobody listens at {host}{f':{port}' if port else ''}."
        if isinstance(cause, ssl.SSLError):
            return f"{host} cannot be reached: its certificate, or its TLS, is not accepted."
        cause = cause.__cause__ or cause.__context__
    return f"{host} cannot be reached ({type(error).__name__})."


def _judged(host: str, status: int) -> str:
    if 200 <= status < 300:
        return ""
    redirects = " Redirects are not followed." if 300 <= status < 400 else ""
    return f"{host} answered with status {status}.{redirects}"


async def _looked_up(url: httpx2.URL) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(
        url.raw_host.decode("ascii"), url.port or 443, type=socket.SOCK_STREAM
    )
    return list(dict.fromkeys(str(one[4][0]) for one in found))


def is_public(address: str) -> bool:
    """Whether an IP address leads out of this host and its networks, also one that has another inside."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv4Address):
        return found.is_global and not found.is_multicast
    inner = found.ipv4_mapped or (ipaddress.IPv4Address(int(found) & 0xFFFFFFFF) if found in _NAT64 else None)
    if inner is not None:
        return is_public(str(inner))
    return found in _UNICAST and found.is_global and found.sixtofour is None and found.teredo is None


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


# -- apprise -----------------------------------------------------------------------------


def _service(url: str) -> Any:
    """What apprise makes of a URL. Raises InvalidRequest."""
    try:
        import apprise
    except ModuleNotFoundError as missing:
        if missing.name != "apprise":
            raise
        raise InvalidRequest(
            "An address that is not https needs the package apprise, which is not installed on the server.",
            remedy="Install it there with `pip install 'cc-orchestrator[notify]'`, or use a webhook.",
        ) from None
    # It writes addresses into its log.
    logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)
    asset = apprise.AppriseAsset(app_id="cc-orchestrator", storage_mode="memory", http_redirects=False)
    service = apprise.Apprise.instantiate(url, asset=asset, suppress_exceptions=True)
    if service is None:
        raise _no_address("Apprise knows no service for it, or something is missing in it.")
    # A URL may ask for other values than the asset's.
    service.redirects = False
    service.socket_connect_timeout = service.socket_read_timeout = SEND_S / 2
    return service


async def _apprise(url: str, text: str) -> str:
    service = await asyncio.to_thread(_service, url)
    try:
        taken = await asyncio.to_thread(service.notify, body=text, title="cc-orchestrator", body_format="text")
    except Exception as error:  # noqa: BLE001 - a hundred services, and what they raise may have the address
        return f"The service failed ({type(error).__name__})."
    return "" if taken else "The service did not take the message."
