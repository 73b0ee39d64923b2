"""Files with secrets of twelve kinds, made up for tests, and what of them nobody may be told."""

from collections.abc import Mapping
from typing import Final

_PEM_LINES: Final = (
    "MIIEpAIBAAKCAQEA0Z3VS5JJcds3xfn/ygWyF0hZ3n5Lw6v2bKq9c1sXhQ7dJk2p",
    "Vx8uT3mN5rE7wY1zA4bC6dF8gH0jK2lM4nP6qR8sT0uV2wX4yZ6aB8cD0eF2gH4i",
    "J6k8L0m2N4o6P8q0R2s4T6u8V0w2X4y6Z8a=",
)
_SSH_LINES: Final = (
    "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW",
    "QyNTUxOQAAACBXyZ1a2b3c4d5e6f7g8h9i0jAkBlCmDnEoFpGqHrIsJtKuLvMw==",
)
_JWT: Final = (
    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
)
_GITHUB: Final = "ghp_" + "A1b2C3d4E5" * 3 + "A1b2C3"
_SLACK: Final = "xoxb-" + "123456789012-abcdefGHIJKL"
_HOOK: Final = "abcDEF-ghiJKL_mnoPQR123"
_OPENAI: Final = "sk-proj-" + "abcdefghijklmnop1234567890"
_AWS_ID: Final = "AKIA" + "IOSFODNN7EXAMPLE"
_AWS: Final = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"

SECRETS: Final[Mapping[str, tuple[str, ...]]] = {
    "env": ("hunter2xyz", "9f8e7d6c5b4a", "q8w7e6r5t4"),
    "api": (_OPENAI, "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc"),
    "aws": (_AWS_ID, _AWS),
    "jwt": (_JWT,),
    "pem": _PEM_LINES,
    "url": ("s3cr3tpw",),
    "bearer": ("abcdefghijklmnop123",),
    "github": (_GITHUB,),
    "chat": (_SLACK, _HOOK, "XXXXabcdXXXX1234XXXX5678"),
    "password": ("hunter2-Xy", "open sesame please"),
    "ssh": _SSH_LINES,
    "connection": ("pw12345x", "P@ssw0rd!", "abcdEFGH1234567890abcdEFGH1234567890abcdEFGH12=="),
}
KINDS: Final[Mapping[str, str]] = {
    "env": f"DB_PASSWORD={SECRETS['env'][0]}\nAPI_KEY={SECRETS['env'][1]}\nAPI_SECRET='{SECRETS['env'][2]}'\nDEBUG=1\n",
    "api": f"local openai = '{SECRETS['api'][0]}'\nlocal stripe = '{SECRETS['api'][1]}'\n",
    "aws": f"aws_access_key_id = {_AWS_ID}\naws_secret_access_key = {_AWS}\n",
    "jwt": f"local who = '{_JWT}'\n",
    "pem": "\n".join(("-----BEGIN RSA PRIVATE KEY-----", *_PEM_LINES, "-----END RSA PRIVATE KEY-----", "")),
    "url": f"http.get('https://bob:{SECRETS['url'][0]}@example.com/x')\n",
    "bearer": f"local headers = {{ ['Authorization'] = 'Bearer {SECRETS['bearer'][0]}' }}\n",
    "github": f"git clone with {_GITHUB}\n",
    "chat": (
        f"slack = '{_SLACK}'\nhook = 'https://discord.com/api/webhooks/123456789012345678/{_HOOK}'\n"
        "other = 'https://hooks.slack.com/services/T00000000/B00000000/XXXXabcdXXXX1234XXXX5678'\n"
    ),
    "password": 'local password = "hunter2-Xy"\nconfig.secret = [[open sesame please]]\n',
    "ssh": "\n".join(("-----BEGIN OPENSSH PRIVATE KEY-----", *_SSH_LINES, "-----END OPENSSH PRIVATE KEY-----", "")),
    "connection": (
        "url = 'postgres://cc:pw12345x@db:5432/cc'\nmssql = 'Server=db;Database=x;User Id=sa;Password=P@ssw0rd!;'\n"
        f"blob = 'AccountName=a;AccountKey={SECRETS['connection'][2]};'\n"
    ),
}
FILE: Final = (
    'local name = "farm"\nlocal password = "hunter2-Xy"\nlocal token = "tok_9f8e7d6c5b4a3210"\n'
    "local function go()\n  print(name)\nend\n\ngo()\n"
)
"""A program with two secrets in it."""
