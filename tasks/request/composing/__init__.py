"""The answer of a request, made of what its branches found: `compose` has the steps in their order."""
