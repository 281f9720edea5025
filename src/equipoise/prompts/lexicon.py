"""Words about people: nouns that name a person, adjectives that stand before a group's, irregular plurals."""

from __future__ import annotations

GENERIC = frozenset("person individual human adult".split())
"""Nouns that say no more than that somebody is there: a group's noun takes their place."""

PERSON_NOUNS = GENERIC | frozenset(
    """
    man woman boy girl gentleman lady guy gal fellow male female mother father mom dad mum son daughter brother sister husband wife
    uncle aunt nephew niece grandmother grandfather grandma grandpa grandson granddaughter king queen prince princess groom bride widow
    widower actress waitress hostess stewardess heiress monk nun businessman businesswoman policeman policewoman fireman firewoman
    salesman saleswoman child kid baby infant toddler newborn teenager teen adolescent youth youngster preschooler schoolchild senior
    elder pensioner retiree parent grandparent grandchild sibling spouse partner cousin relative twin friend neighbor neighbour stranger
    guest host visitor doctor physician surgeon nurse dentist pharmacist paramedic therapist psychologist psychiatrist psychotherapist
    physiotherapist pediatrician cardiologist radiologist dermatologist anesthesiologist veterinarian vet optometrist optician midwife
    caregiver carer caretaker patient engineer programmer developer coder scientist researcher biologist chemist physicist astronomer
    astronaut mathematician statistician economist geologist archaeologist anthropologist sociologist botanist zoologist ecologist
    meteorologist analyst technician machinist mechanic electrician plumber carpenter welder roofer mason bricklayer builder contractor
    laborer labourer worker craftsman repairman blacksmith locksmith jeweler tailor seamstress dressmaker weaver potter carver sculptor
    shoemaker watchmaker baker butcher cook chef barista bartender waiter cashier clerk shopkeeper salesperson seller vendor retailer
    merchant trader buyer shopper customer client consumer manager director executive ceo cfo cto president chairperson entrepreneur
    businessperson owner boss supervisor employee employer intern trainee apprentice assistant secretary receptionist administrator
    accountant auditor banker broker cleaner janitor housekeeper maid butler nanny babysitter gardener landscaper farmer rancher
    shepherd fisherman fisher hunter miner logger lumberjack beekeeper winemaker driver pilot captain sailor boatman seaman courier
    postman mailman biker cyclist bicyclist motorcyclist motorist passenger commuter pedestrian rider jockey horseman equestrian
    backpacker hiker climber mountaineer camper traveler traveller tourist trekker explorer guide teacher professor lecturer instructor
    tutor educator student pupil scholar graduate undergraduate classmate dean librarian coach trainer athlete player ballplayer
    footballer basketballer cricketer golfer swimmer diver runner jogger sprinter marathoner skater skateboarder surfer snowboarder
    skier gymnast boxer wrestler fighter weightlifter bodybuilder cheerleader referee umpire goalkeeper goalie quarterback archer fencer
    rower kayaker dancer ballerina singer musician guitarist drummer pianist violinist cellist flutist trumpeter saxophonist bassist
    rapper composer performer actor comedian magician clown acrobat model artist painter illustrator designer photographer
    photojournalist filmmaker cinematographer animator editor writer author novelist poet journalist reporter blogger columnist
    playwright screenwriter translator speaker presenter announcer broadcaster influencer youtuber streamer gamer lawyer attorney
    solicitor barrister judge prosecutor paralegal juror witness detective investigator officer cop sheriff deputy lawman guard
    bodyguard lifeguard firefighter soldier veteran airman sergeant lieutenant colonel spy agent politician senator governor mayor
    minister ambassador diplomat activist protester protestor demonstrator voter citizen immigrant refugee resident villager priest
    pastor rabbi imam bishop missionary believer worshiper worshipper architect surveyor consultant specialist expert leader member
    volunteer founder inventor creator hacker tester operator inspector dispatcher hairdresser barber stylist beautician manicurist
    masseuse celebrity hero spectator viewer listener reader thief prisoner inmate suspect victim beggar vagrant pedlar busker juggler
    knitter reveler dreamer thinker winner loser champion competitor contestant opponent teammate colleague coworker peer roommate user
    wearer walker sitter bystander onlooker observer helper lover partygoer homeowner bookkeeper groundskeeper homemaker freelancer
    nutritionist dietitian florist usher offspring newlywed monarch royal noble monastic sportsperson spokesperson heir bachelor
    attendant carrier people latino latina baron baroness bloke boyfriend girlfriend bridegroom cameraman chairman chap congressman
    daddy duchess duke dude fella granddad granny housewife lad lass lord madam mama mommy mummy old-timer oldster papa serviceman sir
    spokesman sportsman
    """.split()
)

FOLK = frozenset("people folk folks persons".split())
"""Person nouns that are plural as they are."""

VERB_NOUNS = frozenset(
    "cook guide model guard coach host judge tutor pilot witness captain spy nurse butcher partner mother father referee champion".split()
)
"""Person nouns that are verbs too: "a man cooks"."""

ADJUNCTS = frozenset(
    "human adult baby child kid student model guest senior youth celebrity patient relative individual royal noble latino latina".split()
)
"""Person nouns that often only qualify another noun: "a human face", "a model airplane"."""

IRREGULAR = {
    "person": "people",
    "child": "children",
    "man": "men",
    "woman": "women",
    "gentleman": "gentlemen",
    "wife": "wives",
    "midwife": "midwives",
    "housewife": "housewives",
    "thief": "thieves",
    "grandchild": "grandchildren",
    "schoolchild": "schoolchildren",
    "human": "humans",
    "goalie": "goalies",
}

BEFORE = frozenset(
    """
    smiling laughing crying happy sad angry serious tired sleepy friendly beautiful pretty handsome attractive cute lovely tall short thin slim
    big small little strong fit famous rich poor wealthy homeless lonely single busy excited surprised bored calm confident successful
    retired injured sick healthy pregnant blind deaf disabled bald bearded barefoot nice good bad great kind smart intelligent clever brave shy
    unattractive dumb evil lawful criminal unfriendly normal typical ordinary random unknown average real modern
    talented skilled experienced hardworking hard-working well-dressed casual elegant stylish fashionable sporty athletic relaxed curious focused
    proud nervous worried polite honest creative unhappy cheerful joyful other another lone standing sitting sleeping seated running walking
    young old elderly older younger middle-aged aged teenage youthful
    shirtless masked uniformed tattooed curly-haired blond blonde red-haired brunette
    """.split()
)
"""Adjectives after which a group's adjective goes: "a smiling old doctor", where "a female marine biologist" has it first."""

DETERMINERS = frozenset(
    """a an the this that these those my your his her its our their one two three four five six seven eight nine ten some several many few
    both all each every no any another multiple various dozens hundreds thousands""".split()
)

STOPS = DETERMINERS | frozenset(
    """
    of in on at by for with without from to into onto over under near beside behind between among around through across along against during
    before after above below up down off out about as like and or but nor so if while when where who whom whose which that than then
    is are was were be been being am has have had do does did will would can could may might must shall should not
    showing shows show depicting depicts featuring features portraying holding wearing using riding playing working reading eating drinking
    talking looking watching taking making doing getting having carrying pushing pulling throwing catching jumping cooking cleaning driving posing
    dressed photo picture image portrait photograph snapshot painting sketch drawing illustration close-up headshot selfie rendering face
    he she they him them it we you i there here very too also just
    """.split()
)
"""Words that a noun phrase does not reach across, looking back from its head."""

MODIFIERS = frozenset(
    """
    aerospace computer electrical civil software childcare massage social baseball football soccer tennis basketball volleyball hockey golf rugby
    cricket police security fire prison army navy military medical dental school college university high-school law family construction factory
    office warehouse delivery truck taxi bus train flight airline cab tour mountain  data web video game music fashion graphic interior
    news sports film movie tv radio street opera jazz rock pop ballet yoga fitness swimming driving personal research lab laboratory
    mechanical chemical biomedical industrial environmental nuclear financial business bank sales marketing project product real-estate insurance
    travel customer call-center coffee pastry sushi bakery farm dairy horse dog pet zoo park forest border traffic crossing child health home care
    elementary kindergarten primary middle-school math science history language art dance piano guitar violin team race ice figure
    """.split()
)
"""Words that stand before a person noun as part of its name: "computer programmer"."""

ANIMALS = frozenset(
    """dog cat lion lioness tiger bear deer elk moose duck goose swan peacock bird chicken horse cow bull sheep goat pig elephant giraffe zebra
    monkey gorilla ape cub puppy kitten calf lamb fish shark whale dolphin frog turtle snake spider mosquito insect bee animal mammal""".split()
)
"""What else is male or female."""
