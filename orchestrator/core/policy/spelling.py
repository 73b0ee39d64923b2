"""Further spellings of a canonical path, for rules that must not be walked around."""


def spellings(canonical: str) -> tuple[str, ...]:
    """The path, and, if it is another one, what a Windows host makes of it: dots at the end of a name fall away."""
    if "./" not in f"{canonical}/":
        return (canonical,)
    bare = [part.rstrip(". ") for part in canonical.split("/")]
    return (canonical, "/".join(part for part in bare if part))
