"""The one exception the VIM raises for what its caller, or the machine, did wrong."""


class VimError(Exception):
    """A request the VIM refuses or could not carry out; the text is one sentence for the user.

    Where OpenStack has a text for the same refusal, ours says it in the same manner, because
    that is what a user of OSM's VIM connector will later read.
    """
