"""How much GPU memory training takes, from a few figures: pure sums with their sources.

``ask`` reads what is known of a model, ``memory`` and ``traffic`` do the sums, ``answer`` puts them
together with everything that was assumed.
"""
