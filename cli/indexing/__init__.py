"""`chorale index` through the workers of `chorale.index`."""
