"""Words without a topic, which snippets do not look for."""

_ENGLISH = """
a about all am an and any are as at be been but by can
could did do does for from had happen happened happens has have he her him his how i if in into is it its me my no nor not of on
or our out she should so some such than that the their them then there these they this those to too under
until up was we were what when where which while who whom why will with would you your
"""
_ITALIAN = """
ai al alla alle allo agli che chi ci come con cui da dal dalla dei del della delle dello degli di dove e
ed gli ha ho il la le lo i nel nella nei non o per quale quali quando sono si su succede sul sulla tra un una uno
"""
_GERMAN = """
als am an auf aus bei das dem den der des die ein eine einen einer es für im ist mit nach oder passiert sich sind
und von wann was wer wie zu zum zur
"""
_FRENCH = """
au aux avec ce ces dans de du elle en est et il la le les leur mais ne où par pas passe pour que qui quand sa
ses sur un une
"""
_SPANISH = """
al como con cuando de del donde el en es está la las lo los para pasa pero por qué que se sin su un una y
"""

STOP_WORDS = frozenset((_ENGLISH + _ITALIAN + _GERMAN + _FRENCH + _SPANISH).split())
