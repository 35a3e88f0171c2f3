from hypothesis import settings

# A busy machine is no failure: properties have no time limit of their own.
settings.register_profile("chorale", deadline=None)
settings.load_profile("chorale")
