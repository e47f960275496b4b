"""Facts the generator draws from: which room has which receptacles, what fits where, what each object allows.

What fits where, the classes that can be heated, cooled, cleaned, sliced or switched on, and the wording of the task
sentences are those of ALFWorld (MIT License, Copyright (c) 2020 Mohit Shridhar, Xingdi Yuan, Marc-Alexandre Cote,
Yonatan Bisk, Adam Trischler, Matthew Hausknecht); a test compares them with the installed package. The rooms are ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

Range: TypeAlias = tuple[int, int]

TASK_TYPES = (
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
)
SIZES = ("full", "small")

# Objects that a receptacle of a class takes; objects already sliced are left out, no game starts with one.
_FITS = {
    receptacle: tuple(objects.split())
    for receptacle, objects in {
        "ArmChair": "BasketBall Book Box CellPhone Cloth CreditCard KeyChain Laptop Newspaper Pillow RemoteControl",
        "BathtubBasin": "Cloth DishSponge HandTowel SoapBar",
        "Bed": "BaseballBat BasketBall Book CellPhone Laptop Newspaper Pillow TennisRacket",
        "Cabinet": "Book Bowl Box CD Candle Cloth Cup DishSponge Glassbottle HandTowel Kettle Ladle Mug Newspaper Pan "
        "PepperShaker Plate Plunger Pot SaltShaker SoapBar SoapBottle SprayBottle TissueBox ToiletPaper "
        "ToiletPaperRoll Vase WateringCan WineBottle",
        "Cart": "Candle Cloth DishSponge HandTowel Mug PaperTowel Plunger SoapBar SoapBottle SprayBottle Statue "
        "TissueBox ToiletPaper ToiletPaperRoll Vase",
        "CoffeeMachine": "Mug",
        "Desk": "AlarmClock BasketBall Book Bowl Box CD Candle CellPhone Cloth CreditCard Cup Glassbottle KeyChain "
        "Laptop Mug Newspaper Pen Pencil Plate RemoteControl SoapBottle SprayBottle Statue TennisRacket TissueBox "
        "ToiletPaper ToiletPaperRoll Vase Watch WateringCan WineBottle",
        "Drawer": "Book ButterKnife CD Candle CellPhone Cloth CreditCard DishSponge Fork HandTowel KeyChain Knife "
        "Ladle Newspaper Pen Pencil PepperShaker RemoteControl SaltShaker SoapBar SoapBottle Spatula Spoon "
        "SprayBottle TissueBox ToiletPaper ToiletPaperRoll Watch WateringCan",
        "Dresser": "AlarmClock BasketBall Book Bowl Box CD Candle CellPhone Cloth CreditCard Cup Glassbottle KeyChain "
        "Laptop Mug Newspaper Pen Pencil Plate RemoteControl SprayBottle Statue TennisRacket TissueBox ToiletPaper "
        "ToiletPaperRoll Vase Watch WateringCan WineBottle",
        "Fridge": "Apple Bowl Bread Cup Egg Glassbottle Lettuce Mug Pan Plate Pot Potato Tomato WineBottle",
        "GarbageCan": "Apple Bread CD Cloth DishSponge Egg HandTowel Lettuce Newspaper PaperTowel Pen Pencil Potato "
        "SoapBar SoapBottle SprayBottle TissueBox ToiletPaper ToiletPaperRoll Tomato WineBottle",
        "HandTowelHolder": "HandTowel",
        "LaundryHamper": "Cloth",
        "Microwave": "Apple Bowl Bread Cup Egg Glassbottle Mug Plate Potato Tomato",
        "Safe": "CD CellPhone CreditCard KeyChain Statue Vase Watch",
        "Shelf": "AlarmClock Book Bowl Box CD Candle CellPhone Cloth CreditCard Cup DishSponge Glassbottle HandTowel "
        "Kettle KeyChain Mug Newspaper PaperTowel Pen Pencil PepperShaker Plate Pot RemoteControl SaltShaker SoapBar "
        "SoapBottle SprayBottle Statue TissueBox ToiletPaper ToiletPaperRoll Vase Watch WateringCan WineBottle",
        "SinkBasin": "Apple Bowl ButterKnife Cloth Cup DishSponge Egg Fork Glassbottle HandTowel Kettle Knife Ladle "
        "Lettuce Mug Pan Plate Pot Potato SoapBar Spatula Spoon Tomato",
        "StoveBurner": "Kettle Pan Pot",
        "TVStand": "TissueBox",
        "Toaster": "",
        "Toilet": "Candle Cloth DishSponge HandTowel Newspaper PaperTowel SoapBar SoapBottle SprayBottle TissueBox "
        "ToiletPaper ToiletPaperRoll",
        "ToiletPaperHanger": "ToiletPaper ToiletPaperRoll",
        "TowelHolder": "Towel",
    }.items()
}
_TABLE_TOP = tuple(
    (
        "AlarmClock Apple BaseballBat BasketBall Book Bowl Box Bread ButterKnife CD Candle CellPhone Cloth CreditCard "
        "Cup DishSponge Egg Fork Glassbottle HandTowel Kettle KeyChain Knife Ladle Laptop Lettuce Mug Newspaper Pan "
        "PaperTowel Pen Pencil PepperShaker Plate Pot Potato RemoteControl SaltShaker SoapBar SoapBottle Spatula Spoon "
        "SprayBottle Statue TennisRacket TissueBox ToiletPaper ToiletPaperRoll Tomato Vase Watch WateringCan WineBottle"
    ).split()
)
FITS: Mapping[str, tuple[str, ...]] = {
    **_FITS,
    "Ottoman": _FITS["ArmChair"],
    "Sofa": _FITS["ArmChair"],
    **dict.fromkeys(("CoffeeTable", "CounterTop", "DiningTable", "SideTable"), _TABLE_TOP),
}

OPENABLE = ("Cabinet", "Drawer", "Fridge", "Microwave", "Safe")
# Objects that hold others in the visual simulator; the text engine treats them as plain objects.
MOVABLE_RECEPTACLES = ("Bowl", "Box", "Cup", "Mug", "Pan", "Plate", "Pot")
# Property of a fact in the PDDL problem -> classes that have it.
PROPERTIES: Mapping[str, tuple[str, ...]] = {
    "heatable": tuple("Apple Bread Cup Egg Mug Plate Potato Tomato".split()),
    "coolable": tuple("Apple Bowl Bread Cup Egg Lettuce Mug Pan Plate Pot Potato Tomato WineBottle".split()),
    "cleanable": tuple(
        "Apple Bowl ButterKnife Cloth Cup DishSponge Egg Fork Kettle Knife Ladle Lettuce Mug Pan Plate Pot Potato "
        "SoapBar Spatula Spoon Tomato".split()
    ),
    "sliceable": tuple("Apple Bread Egg Lettuce Potato Tomato".split()),
    "isReceptacleObject": MOVABLE_RECEPTACLES,
}
LAMPS = ("DeskLamp", "FloorLamp")
LAMP_HOSTS = ("CoffeeTable", "Desk", "DiningTable", "Dresser", "Shelf", "SideTable")

SENTENCES: Mapping[str, tuple[str, str]] = {
    "pick_and_place_simple": ("put a {obj} in {recep}", "put some {obj} on {recep}"),
    "look_at_obj_in_light": ("look at {obj} under the {toggle}", "examine the {obj} with the {toggle}"),
    "pick_clean_then_place_in_recep": ("put a clean {obj} in {recep}", "clean some {obj} and put it in {recep}"),
    "pick_heat_then_place_in_recep": ("put a hot {obj} in {recep}", "heat some {obj} and put it in {recep}"),
    "pick_cool_then_place_in_recep": ("put a cool {obj} in {recep}", "cool some {obj} and put it in {recep}"),
    "pick_two_obj_and_place": ("put two {obj} in {recep}", "find two {obj} and put them in {recep}"),
}
# Task type -> what the object must allow, and the appliance that does it.
TREATMENTS: Mapping[str, tuple[str, str]] = {
    "pick_clean_then_place_in_recep": ("cleanable", "SinkBasin"),
    "pick_heat_then_place_in_recep": ("heatable", "Microwave"),
    "pick_cool_then_place_in_recep": ("coolable", "Fridge"),
}
ROOMS_OF_TASK: Mapping[str, tuple[str, ...]] = {
    "pick_and_place_simple": ("bathroom", "bedroom", "kitchen", "livingroom"),
    "look_at_obj_in_light": ("bedroom", "livingroom"),
    "pick_clean_then_place_in_recep": ("bathroom", "kitchen"),
    "pick_heat_then_place_in_recep": ("kitchen",),
    "pick_cool_then_place_in_recep": ("kitchen",),
    "pick_two_obj_and_place": ("bathroom", "bedroom", "kitchen", "livingroom"),
}

# Number of a room kind's scene 0, as in ALFWorld's folder names.
FIRST_SCENE = {"kitchen": 0, "livingroom": 200, "bedroom": 300, "bathroom": 400}
ROOM_OBJECTS: Mapping[str, tuple[str, ...]] = {
    room: tuple(objects.split())
    for room, objects in {
        "kitchen": "Apple Book Bowl Bread ButterKnife CellPhone CreditCard Cup DishSponge Egg Fork Glassbottle Kettle "
        "Knife Ladle Lettuce Mug Pan PaperTowel PepperShaker Plate Pot Potato SaltShaker SoapBottle Spatula Spoon "
        "Statue Tomato Vase WineBottle",
        "livingroom": "Book Bowl Box Candle CellPhone CreditCard KeyChain Laptop Newspaper Pen Pencil Pillow Plate "
        "RemoteControl Statue TissueBox Vase Watch WateringCan",
        "bedroom": "AlarmClock BaseballBat BasketBall Book Bowl Box CD CellPhone Cloth CreditCard KeyChain Laptop Mug "
        "Pen Pencil Pillow RemoteControl Statue TennisRacket TissueBox Vase Watch",
        "bathroom": "Candle Cloth DishSponge HandTowel PaperTowel Plunger SoapBar SoapBottle SprayBottle TissueBox "
        "ToiletPaper ToiletPaperRoll Towel",
    }.items()
}
# Objects besides those of the goal.
NUM_OTHERS: Mapping[str, Mapping[str, Range]] = {
    "full": {"kitchen": (25, 45), "livingroom": (15, 25), "bedroom": (15, 28), "bathroom": (10, 18)},
    "small": dict.fromkeys(FIRST_SCENE, (5, 9)),
}

# Receptacles by size, room and group of scenes: the class, and how many where it is not one. `seen` scenes serve train
# and valid_seen, `unseen` ones valid_unseen. An unseen room always has a class, or more of a class, than any seen room
# of its kind.
LAYOUTS: Mapping[tuple[str, str, str], Mapping[str, Range]] = {
    key: {
        word.partition(":")[0]: (int(least or 1), int(most or least or 1))
        for word in text.split()
        for least, _, most in [word.partition(":")[2].partition("-")]
    }
    for key, text in {
        ("full", "kitchen", "seen"): "Cabinet:6-16 CoffeeMachine CounterTop:1-3 DiningTable:0-2 Drawer:3-9 Fridge "
        "GarbageCan Microwave Shelf:0-2 SinkBasin StoveBurner:4 Toaster",
        ("full", "kitchen", "unseen"): "Cabinet:4-10 CoffeeMachine CounterTop:2-3 Drawer:3-6 Fridge GarbageCan "
        "Microwave Shelf:3-5 SideTable:0-1 SinkBasin StoveBurner:4-6 Toaster",
        ("full", "livingroom", "seen"): "ArmChair:1-2 CoffeeTable DiningTable:0-1 Drawer:2-8 GarbageCan Shelf:0-5 "
        "SideTable:1-2 Sofa TVStand",
        ("full", "livingroom", "unseen"): "ArmChair:0-2 Cabinet:0-4 CoffeeTable:1-2 Dresser:0-1 Drawer:2-6 GarbageCan "
        "Ottoman:1-2 Shelf:1-6 SideTable Sofa:1-2",
        ("full", "bedroom", "seen"): "Bed Desk:1-2 Drawer:4-10 Dresser:0-1 GarbageCan LaundryHamper:0-1 Safe:0-1 "
        "Shelf:1-6 SideTable:0-2",
        ("full", "bedroom", "unseen"): "ArmChair Bed Desk Drawer:3-9 Dresser:0-1 GarbageCan Safe:0-1 Shelf:2-7 "
        "SideTable:1-2",
        ("full", "bathroom", "seen"): "BathtubBasin:0-1 Cabinet:2-6 CounterTop Drawer:0-4 GarbageCan "
        "HandTowelHolder:1-2 SinkBasin:1-2 Toilet ToiletPaperHanger TowelHolder",
        ("full", "bathroom", "unseen"): "BathtubBasin:0-1 Cabinet:1-4 Cart CounterTop GarbageCan HandTowelHolder:1-2 "
        "Shelf:1-3 SinkBasin:1-2 Toilet ToiletPaperHanger TowelHolder:1-2",
        ("small", "kitchen", "seen"): "Cabinet:1-2 CounterTop DiningTable:0-1 Drawer:1-2 Fridge GarbageCan Microwave "
        "SinkBasin StoveBurner",
        ("small", "kitchen", "unseen"): "Cabinet:1-2 CoffeeMachine CounterTop Drawer Fridge Microwave Shelf:1-2 "
        "SideTable:0-1 SinkBasin",
        ("small", "livingroom", "seen"): "ArmChair:1-2 CoffeeTable Drawer:2-3 GarbageCan Shelf:0-1 SideTable:1-2 Sofa "
        "TVStand",
        ("small", "livingroom", "unseen"): "ArmChair CoffeeTable DiningTable:0-1 Drawer:2-3 GarbageCan:0-1 Ottoman "
        "Shelf:1-2 SideTable Sofa",
        ("small", "bedroom", "seen"): "Bed Desk Drawer:3-4 GarbageCan Safe:0-1 Shelf:1-2 SideTable",
        ("small", "bedroom", "unseen"): "ArmChair Bed Drawer:3-4 Dresser LaundryHamper:0-1 Shelf:1-2 SideTable",
        ("small", "bathroom", "seen"): "Cabinet:2-3 CounterTop GarbageCan HandTowelHolder SinkBasin:1-2 Toilet "
        "ToiletPaperHanger TowelHolder:0-1",
        ("small", "bathroom", "unseen"): "BathtubBasin Cart CounterTop Drawer:1-2 GarbageCan Shelf:1-2 SinkBasin "
        "Toilet TowelHolder:0-1",
    }.items()
}
