"""Reading a model's reply that is not plain JSON: it is found in its text, and repaired where nothing is lost.

    scanner       one JSON value at one position in a text, with the repairs that lose nothing
    fences        code blocks and thoughts: the parts in which nothing counts
    objects       the objects of a text, the markup of chat templates, and the choice of the one reply
    surroundings  the text right before and right behind an object, and placeholders of the prompt that came back
    shapes        foreign spellings brought into ours
    response      the reply as a model with types, and the sentence for a reply that is refused
    schema        the JSON schema of a reply, for servers that can bind a model to a grammar

Each module raises ReplyRefused with one sentence for the model, and nothing else. Each takes time linear in the text:
no character is read twice, and a fault is refused at once.
"""
