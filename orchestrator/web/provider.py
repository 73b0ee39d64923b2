"""An OpenID provider as this server asks it: its addresses and keys, and the claims of a person whom it signed in.

Theory. The authorization code flow: the provider's page sends the browser back with a code, and this server exchanges
the code for an ``id_token`` at the provider itself. The token counts if its signature is by a key of the provider, with
an algorithm of a short list, and if issuer, audience, time and nonce are those of this very sign-in. Addresses and keys
are kept for an hour; a token by a key that is not known makes this server read the keys once more, since providers
change them. A provider is somebody else's program: each answer has a size and a time that it may not pass.

authlib makes the address, asks the token endpoint and checks the claims; joserfc, a part of it, checks signatures.
"""

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
from authlib.integrations.base_client import OAuthError
from authlib.integrations.httpx_client import AsyncOAuth2Client
from authlib.oidc.core import CodeIDToken
from authlib.oidc.discovery import get_well_known_url
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet

from orchestrator.runtime.settings import LOOPBACK
from orchestrator.web.oidc import Attempt, ProviderAway, SignInRefused

ALGORITHMS: Final = ("RS256", "ES256")
"""Both need a key that only the provider has: ``none`` has no key, and HS256 would take the client's secret as one."""
SKEW_S: Final = 30
"""The most that the provider's clock may differ."""
KEEP_S: Final = 3600.0
"""How long addresses and keys are used before they are read again."""
AGAIN_S: Final = 5.0
"""How long a provider that did not answer is not asked again: those who wait for it hear so together."""
WITHIN_S: Final = 10.0
"""The time that the provider has for one answer."""
MOST_BYTES: Final = 512 * 1024
"""An answer has at most so many; an ``id_token`` has a few thousand."""
_ADDRESSES: Final = ("authorization_endpoint", "token_endpoint", "jwks_uri")


class OidcProvider:
    """One provider at which this server is registered as a client."""

    def __init__(self, issuer: str, client_id: str, client_secret: str) -> None:
        self.name = urlsplit(issuer).hostname or issuer
        self._issuer = issuer
        self._client_id, self._client_secret = client_id, client_secret
        self._tls = ssl.create_default_context()
        self._reading = asyncio.Lock()
        self._known: tuple[float, dict[str, Any]] | None = None
        self._keys: tuple[float, KeySet] | None = None
        self._failed: tuple[float, ProviderAway] | None = None

    async def address(self, attempt: Attempt, back: str) -> str:
        """The address of the provider's page for an attempt. Raises ProviderAway."""
        known = await self._metadata()
        async with self._client(known, back) as client:
            made, _ = client.create_authorization_url(
                known["authorization_endpoint"],
                state=attempt.state,
                nonce=attempt.nonce,
                code_verifier=attempt.verifier,
            )
        return str(made)

    async def claims(self, code: str, attempt: Attempt, back: str, *, issuer: str, now: datetime) -> Mapping[str, Any]:
        """The claims about the person for whom the provider gave a code. Raises ProviderAway, SignInRefused.

        ``issuer``: the one that the address of the callback names; empty: none.
        """
        known = await self._metadata()
        must_say = known.get("authorization_response_iss_parameter_supported") is True
        if issuer != self._issuer and (issuer or must_say):
            raise SignInRefused("Another provider than the one of the settings answered.")
        token = await self._exchanged(known, code, attempt, back)
        try:
            signed = await self._decoded(known, str(token.get("id_token") or ""))
            claims = CodeIDToken(
                signed.claims,
                signed.header,
                {
                    "iss": {"essential": True, "value": self._issuer},
                    "aud": {"essential": True, "value": self._client_id},
                },
                {"nonce": attempt.nonce, "client_id": self._client_id, "access_token": token.get("access_token")},
            )
            claims.validate(now=int(now.timestamp()), leeway=SKEW_S)
        except (JoseError, ValueError, TypeError, LookupError, OverflowError, RecursionError) as error:
            # The kind of the fault, and never a part of the token.
            raise SignInRefused(
                f"The provider's word about you cannot be believed ({_fault(error)}).",
                remedy="Sign in again. If that does not help, ask an admin to compare the settings with the provider.",
            ) from None
        found: Mapping[str, Any] = claims
        return found

    async def _exchanged(self, known: Mapping[str, Any], code: str, attempt: Attempt, back: str) -> Mapping[str, Any]:
        """The answer of the token endpoint to a code."""
        try:
            async with asyncio.timeout(WITHIN_S), self._client(known, back) as client:
                token = await client.fetch_token(
                    known["token_endpoint"],
                    code=code,
                    code_verifier=attempt.verifier,
                    grant_type="authorization_code",
                )
        except OAuthError:
            raise SignInRefused(
                "The provider does not take the code of this sign-in: it was used, or is too old.",
                remedy="Sign in again. If that does not help, ask an admin to check oidc_client_id and its secret.",
            ) from None
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, TimeoutError, ValueError) as error:
            raise self._away(error) from None
        return dict(token)

    async def _decoded(self, known: Mapping[str, Any], text: str) -> jwt.Token:
        """A token whose signature is by a key of the provider. Raises JoseError, ValueError, ProviderAway."""
        try:
            return jwt.decode(text, await self._key_set(known), algorithms=ALGORITHMS)
        except InvalidKeyIdError:
            # The provider has a new key since.
            self._keys = None
            return jwt.decode(text, await self._key_set(known), algorithms=ALGORITHMS)

    async def _metadata(self) -> dict[str, Any]:
        """The provider's description of itself. Raises ProviderAway."""
        async with self._reading:
            if self._known is None or time.monotonic() - self._known[0] >= KEEP_S:
                if self._failed is not None and time.monotonic() - self._failed[0] < AGAIN_S:
                    raise ProviderAway(self._failed[1].message, remedy=self._failed[1].remedy)
                try:
                    self._known = (time.monotonic(), await self._described())
                except ProviderAway as error:
                    self._failed = (time.monotonic(), error)
                    raise
            return self._known[1]

    async def _described(self) -> dict[str, Any]:
        found = await self._read(get_well_known_url(self._issuer, external=True))
        if found.get("issuer") != self._issuer:
            raise self._away(ValueError("it has another name than oidc_issuer says"))
        if not all(is_safe(str(found.get(one))) for one in _ADDRESSES):
            raise self._away(ValueError("an address of it is missing, or is without https"))
        return found

    async def _key_set(self, known: Mapping[str, Any]) -> KeySet:
        """The provider's keys. Raises ProviderAway."""
        async with self._reading:
            if self._keys is None or time.monotonic() - self._keys[0] >= KEEP_S:
                found: Any = await self._read(known["jwks_uri"])
                try:
                    self._keys = (time.monotonic(), KeySet.import_key_set(found))
                except (JoseError, ValueError, TypeError, LookupError):
                    raise self._away(ValueError("its keys cannot be read")) from None
            return self._keys[1]

    async def _read(self, url: str) -> dict[str, Any]:
        try:
            async with asyncio.timeout(WITHIN_S), self._http() as client:
                answer = await client.get(url)
                answer.raise_for_status()
                found = json.loads(answer.content)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, TimeoutError, ValueError, RecursionError) as error:
            raise self._away(error) from None
        return found if isinstance(found, dict) else {}

    def _http(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=_Bounded(self._tls), timeout=WITHIN_S, trust_env=False)

    def _client(self, known: Mapping[str, Any], back: str) -> AsyncOAuth2Client:
        methods = known.get("token_endpoint_auth_methods_supported")
        only_post = isinstance(methods, list) and methods and "client_secret_basic" not in methods
        method = "client_secret_post" if only_post else "client_secret_basic"
        return AsyncOAuth2Client(
            self._client_id,
            self._client_secret or None,
            token_endpoint_auth_method=method if self._client_secret else "none",
            scope="openid profile",
            redirect_uri=back,
            code_challenge_method="S256",
            transport=_Bounded(self._tls),
            timeout=WITHIN_S,
            trust_env=False,
        )

    def _away(self, error: Exception) -> ProviderAway:
        why = str(error) if type(error) is ValueError else type(error).__name__
        return ProviderAway(
            f"The provider {self.name} does not answer as it should ({why[:200]}).",
            remedy="Try again in a minute, or sign in with a token. An admin compares oidc_issuer with the provider.",
        )


def is_safe(url: str) -> bool:
    """Whether nobody on the way can read or change what is said at an address: https, or this very machine."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)


def _fault(error: Exception) -> str:
    kind = getattr(error, "error", "") or type(error).__name__
    claim = getattr(error, "claim", "")
    return f"{kind}: {claim}" if isinstance(claim, str) and claim else str(kind)


class _Bounded(httpx2.AsyncHTTPTransport):
    """A transport whose answers end with an error when they pass ``MOST_BYTES``, or could grow by being unpacked."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        super().__init__(verify=tls)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        request.headers["Accept-Encoding"] = "identity"
        answer = await super().handle_async_request(request)
        if answer.headers.get("Content-Encoding", "identity") != "identity":
            await answer.aclose()
            raise httpx2.ReadError("the answer is compressed")
        return httpx2.Response(
            answer.status_code, headers=answer.headers, stream=_Most(answer.stream), extensions=answer.extensions
        )


class _Most(httpx2.AsyncByteStream):
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = MOST_BYTES
        async for part in self._stream:
            left -= len(part)
            if left < 0:
                raise httpx2.ReadError("the answer is too long")
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()
