"""The words of the built-in corpus: concepts with their synonyms, frequent ones first.

English words come first in each class; a long tail of rare, English-like words follows, so that a corpus has
as many distinct words, and as many rare ones, as real text of its size.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

BEINGS = """man/guy woman/lady dog/hound person/individual boy/lad girl/lass kid/youngster horse/pony player/athlete
cat/kitten baby/infant soldier/trooper rider/biker singer/vocalist cowboy/cowgirl monkey/ape dancer/ballerina
bird/sparrow elephant hiker/climber chef/cook swimmer/diver worker/labourer skier/snowboarder lion/tiger surfer
turtle/tortoise deer/elk cyclist/bicyclist artist/painter student/pupil teacher/tutor father/dad mother/mum
skater/skateboarder cow/bull goat/sheep rabbit/hare drummer/percussionist guitarist panda/bear farmer/gardener
officer/guard doctor/nurse clown/comedian model/actress wrestler/boxer sailor/fisherman squirrel/hamster fox/wolf
puppy/whelp snake/lizard frog/toad duck/goose parrot/parakeet crowd/audience team/squad couple/pair rower/canoeist
photographer/cameraman musician/fiddler waiter/waitress driver/motorist hunter/trapper bride/groom tourist/visitor"""

THINGS = """guitar/banjo ball/football water/liquid shirt/jacket hat/cap bike/bicycle potato/carrot piano/keyboard
onion/garlic rope/cord egg/omelette stick/branch flute/whistle food/meal car/automobile knife/blade paper/sheet
box/package camera/gun picture/photo toy/doll bread/loaf tomato/pepper fish/salmon meat/beef drum/cymbal cup/mug
book/magazine helmet/hood phone/telephone motorcycle/scooter vegetable/cucumber stone/rock snow/ice pan/pot
banana/apple truck/lorry boat/canoe violin/cello table/desk card/letter board/plank ladder/stair bucket/pail
window/door hoop/ring kite/balloon shoe/boot glass/bottle dress/gown umbrella/parasol towel/blanket trumpet/horn
basket/hamper flower/rose candle/torch wheel/tyre sword/spear bowl/plate fence/gate swing/slide barrel/drum
cake/pie hammer/axe pumpkin/melon sandwich/burger carriage/cart sofa/couch mirror/lamp puzzle/riddle leaf/petal
newspaper/journal racket/bat bag/sack rifle/pistol tent/hut wall/brick pencil/crayon statue/sculpture"""

PLACES = """field/meadow beach/shore street/road pool/lake park/garden grass/lawn river/stream mountain/hill room/hall
kitchen/pantry stage/platform forest/wood ocean/sea city/town yard/court background/distance snow/slope air/sky
track/lane bench/seat crowd/group stadium/arena desert/dune house/cottage bridge/pier top/summit floor/carpet
restaurant/cafe market/shop pond/creek cliff/ledge gym/studio trail/path church/temple roof/balcony school/college
playground/sandpit farm/barn station/terminal office/lobby tree/bush harbour/dock tunnel/cave zoo/cage rink/pitch
ramp/kerb waterfall/fountain square/plaza theatre/cinema island/reef canyon/valley porch/patio hospital/clinic"""

ACTIONS = """play/perform walk/stroll stand/wait jump/leap dance/twirl talk/speak sing/chant climb/clamber rest/relax
sleep/doze march/parade smile/beam laugh/giggle race/sprint work/toil swing/sway fall/tumble crawl/creep wade/splash
float/drift yawn/sigh exercise/train paddle/row skate/glide shout/yell kneel/crouch travel/wander fight/struggle
pose/gesture juggle/tinker whisper/mumble tremble/shiver"""

DEEDS = """play/perform chase/pursue watch/observe push/shove pull/haul lift/raise carry/transport kick/boot
paint/sketch clean/wash cook/roast peel/pare slice/carve toss/hurl follow/trail pour/splash mix/combine brush/comb
serve/nourish climb/scale open/unlock fix/repair show/present chew/munch taste/sample fold/crease poke/touch
attack/assault load/pack inspect/examine burn/scorch crack/smash pass/hand tickle/tease record/film call/summon
guide/direct answer/question comfort/console weigh/measure squeeze/squash decorate/adorn polish/wax hook/attach"""

QUALITIES = """black/dark white/pale brown/tan young/youthful red/crimson blue/navy large/big old/elderly small/little
green/olive yellow/golden tall/high wooden/timber empty/vacant wet/soaked grey/silver happy/cheerful dirty/muddy
blond/fair pink/rosy orange/amber heavy/massive shirtless/bare cold/chilly hot/warm busy/crowded long/lengthy
snowy/icy quiet/silent bright/shiny colourful/motley thin/slim fat/plump rocky/stony sandy/dusty broken/cracked
hairy/furry purple/violet new/modern tired/weary strong/sturdy sad/gloomy angry/furious grassy/leafy plastic/rubber
sharp/pointed soft/fluffy striped/spotted round/circular narrow/cramped famous/renowned curly/wavy brave/daring"""

MANNERS = """quickly/fast outside/outdoors slowly/gently together/jointly happily/gladly quietly/silently
nearby/close carefully/cautiously loudly/noisily alone/singly energetically/vigorously inside/indoors
skilfully/expertly easily/smoothly backwards/rearwards upwards/skywards eagerly/keenly angrily/crossly"""

LINKS = "in/inside on/upon near/by at/around with/alongside behind/beyond over/above through/across under/beneath"

# Classes, their English words, how many concepts each has in all, and how fast frequencies fall with the rank.
CLASSES = {
    "being": (BEINGS, 230, 1.32),
    "thing": (THINGS, 560, 1.14),
    "place": (PLACES, 310, 1.14),
    "action": (ACTIONS, 150, 1.12),
    "deed": (DEEDS, 230, 1.08),
    "quality": (QUALITIES, 320, 1.1),
    "manner": (MANNERS, 70, 1.05),
    "link": (LINKS, 9, 1.1),
}
IRREGULAR = (
    "man/men woman/women fish/fish deer/deer elk/elk sheep/sheep goose/geese knife/knives leaf/leaves wolf/wolves"
)
PLURALS = dict(entry.split("/") for entry in IRREGULAR.split())
ONSETS = "b bl br c cl cr d dr f fl fr g gl gr h j k l m n p pl pr qu r s sc sl sp st sw t tr v w".split()
VOWELS = "a e i o u ai ea ee oa oo ou".split()
CODAS = "b ck d g l ll m mp n nd nk nt p r rd rk rn rt s sk st t x zz".split()


@dataclass(frozen=True)
class Concept:
    """One meaning and the words for it; `place` is its rank in its class."""

    kind: str
    place: int
    words: tuple[str, ...]


@cache
def concepts(kind: str) -> tuple[Concept, ...]:
    """Return all concepts of a class, the frequent ones first."""
    english, count, _ = CLASSES[kind]
    known = [tuple(entry.split("/")) for entry in english.split()]
    tail = _invented(kind, count - len(known))
    return tuple(Concept(kind, place, words) for place, words in enumerate([*known, *tail]))


@cache
def frequencies(kind: str) -> np.ndarray:
    """Return how often each concept of a class is chosen: a power of its rank, as in Zipf's law."""
    count, power = CLASSES[kind][1:]
    weights = (np.arange(count) + 2.0) ** -power
    return weights / weights.sum()


def _invented(kind: str, count: int) -> list[tuple[str, ...]]:
    """Make rare words of one syllable, the same in every corpus."""
    rng = np.random.default_rng(sorted(CLASSES).index(kind))
    ending = {"quality": "y", "manner": "ly"}.get(kind, "")
    found: dict[str, None] = {}
    while len(found) < count:
        found[rng.choice(ONSETS) + rng.choice(VOWELS) + rng.choice(CODAS) + ending] = None
    return [(word,) for word in found]


def plural(noun: str) -> str:
    """Return the plural of a noun."""
    if noun in PLURALS:
        return PLURALS[noun]
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith(("s", "sh", "ch", "x", "zz")) else "s")


def progressive(verb: str) -> str:
    """Return the form in -ing."""
    return (verb[:-1] if verb.endswith("e") else verb) + "ing"


def participle(verb: str) -> str:
    """Return the form in -ed; all verbs are taken as regular."""
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return verb[:-1] + "ied"
    return verb + ("d" if verb.endswith("e") else "ed")
