"""Texts of more than 100 longer words, the least by which a language is recognised."""

ITALIAN = (
    "Il contratto di lavoro può essere disdetto con un preavviso di quattro settimane, purché la comunicazione avvenga per "
    "iscritto. Durante il periodo di prova ciascuna delle parti può recedere liberamente dal rapporto senza obbligo di "
    "motivazione. Il dipendente conserva il diritto alla retribuzione maturata, alle ferie non godute e alla tredicesima "
    "mensilità. L'azienda consegna il certificato di servizio entro dieci giorni dalla cessazione del rapporto. "
) * 3
ENGLISH = (
    "The contract of employment may be terminated with four weeks of notice, provided that the notice is given in writing. "
    "During the probation period either party may leave without giving reasons. The employee keeps the right to wages, "
    "unused holidays and the yearly bonus. The company hands over a certificate of service within ten days after the end. "
) * 4
