"""How a reply is read that is not plainly what was asked for: found in its text, repaired where nothing is lost.

    values    what all of it shares: limits, words, the strict decoder
    scanner   one JSON value at a place in a text, with the repairs that lose nothing
    fences    code blocks and thoughts: what is skipped
    finding   the objects of a text and what stands around them
    standing  what stands right before and behind an object
    words     what the words around them make doubtful
    tags      calls in the markup of a model's own chat template
    choosing  the one reply among them
    shapes    foreign spellings brought into ours
    echoes    placeholders of the prompt that came back

Each module raises ReplyRefused with one sentence for the model, and nothing else. All of it takes
time linear in the text: what was passed is never looked at again, and what fails is refused at once.
"""
