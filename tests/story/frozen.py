"""Imported last by the process that stories are forked from: what is there then is never collected again.

Otherwise each of a thousand children looks through all of it, and copies each page of it that it looks at.
"""

import gc

gc.collect()
gc.freeze()
