#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes a text of short children's stories of the requested length: a text similar to TinyStories that needs no download.

    bench/stories.py [CHARACTERS [SEED]] > stories.txt

A story has a child, a friend, a place, a thing and a plan, and each is mentioned again later, so that a model learns words
and grammar first and long-range dependencies afterwards. The text does not cover all of English: it has about sixty kinds of
sentences. The same arguments give the same bytes on any machine and any Python 3.
"""
import argparse
import signal
import sys


class Draw:
    """Random numbers from a seed (SplitMix64), because Python's own generator may differ between versions."""

    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        self.state = (self.state + 0x9E3779B97F4A7C15) % 2**64
        z = self.state
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        return (z ^ (z >> 31)) % n

    def one(self, choices):
        return choices[self.below(len(choices))]


GIRLS = "Lily Mia Anna Sue Lucy Emma Sara Amy Molly Rose Zoe Ella Daisy Jane Kate Nora".split()
BOYS = "Tom Ben Max Tim Sam Jack Leo Finn Bob Joe Mark Paul Dan Adam Luke Oscar".split()
FRIENDS = ["a little dog named Spot", "a small cat named Kitty", "a brown bear named Bruno", "a kind bird named Pip", "a green frog named Hop",
           "a shy rabbit named Snow", "an old turtle named Grey", "a clever fox named Red", "a tiny mouse named Dot", "a happy duck named Quack"]
PLACES = ["park", "garden", "forest", "beach", "farm", "river", "kitchen", "big hill", "playground", "market", "lake", "library", "field", "barn"]
THINGS = ["red ball", "blue kite", "shiny stone", "wooden boat", "toy car", "soft teddy", "yellow hat", "little drum", "silver key", "big balloon",
          "green book", "warm scarf", "old box", "new doll", "paper plane", "small lamp", "pretty shell", "long rope"]
FOODS = ["apple", "cookie", "cake", "pear", "banana", "sandwich", "carrot", "pie", "muffin", "peach"]
GOOD = ["happy", "glad", "proud", "excited", "thankful"]
BAD = ["sad", "scared", "worried", "angry", "upset"]
WEATHER = ["sunny", "rainy", "cold", "warm", "windy", "snowy", "cloudy"]
GROWN = ["mom", "dad", "grandma", "grandpa", "teacher", "aunt"]

BEGIN = ["Once upon a time, there was a {small} {kind} named {name}.", "One day, a {small} {kind} named {name} woke up early.",
         "There was once a {small} {kind}. {His} name was {name}.", "{name} was a {small} {kind} who lived near the {place}.",
         "Once there was a {small} {kind} called {name}, and {he} loved the {place}."]
LOVES = ["{name} loved to play with {his} {thing}.", "{name} had a {thing} and took it everywhere.", "{name} liked to go to the {place} with {his} {thing}.",
         "Every day {name} carried {his} {thing} to the {place}.", "{His} {grown} had given {him} a {thing}."]
DAY = ["It was a {weather} day.", "The day was {weather}, and {name} wanted to go out.", "One {weather} morning, {name} went to the {place}.",
       "On a {weather} day {he} walked to the {place} with {his} {grown}.", "\"Can we go to the {place}?\" asked {name}. \"Yes,\" said {his} {grown}."]
MEETS = ["At the {place} {he} met {friend}.", "There {he} saw {friend}.", "Then {friend} came to the {place}.", "Near the {place} lived {friend}."]
SAYS = ["\"Hello, {pet},\" said {name}. \"Do you want to play?\"", "\"Will you be my friend?\" asked {pet}.", "\"What do you have there?\" asked {pet}.",
        "\"I have a {thing},\" said {name}. \"You can play with it.\"", "{pet} looked at the {thing} and smiled.", "\"Can I have some of your {food}?\" asked {pet}."]
TROUBLE = ["But then the {thing} fell into the water.", "Suddenly, the {thing} was gone.", "But the {thing} got stuck in a tall tree.", "Then it started to rain, and the {thing} got wet.",
           "But {pet} ran away with the {thing}.", "Oh no! The {thing} broke.", "{name} could not find the {thing} at the {place}."]
FEELS = ["{name} was very {bad}.", "{name} felt {bad} and began to cry.", "\"Where is my {thing}?\" said {name}. {He} was {bad}.", "{name} and {pet} were both {bad}."]
HELP = ["\"Do not be {bad},\" said {pet}. \"I will help you.\"", "{pet} had an idea.", "{He} asked {his} {grown} for help.", "\"Let us look for it together,\" said {pet}.",
        "{name} thought for a long time. Then {he} had an idea.", "\"Please help me,\" {name} said to {his} {grown}."]
WORK = ["They looked under a tree, behind a rock and in the grass.", "{pet} pulled and pulled, and {name} held on tight.", "They walked all the way around the {place}.",
        "{His} {grown} brought a long stick.", "{name} shared {his} {food} with {pet}, and they tried again.", "They tried one time, two times, three times."]
FOUND = ["At last, {he} got the {thing} back.", "And there it was: the {thing}!", "Soon the {thing} was as good as new.", "\"Here is your {thing},\" said {pet}.", "{pet} gave the {thing} back and said, \"I am sorry.\""]
AFTER = ["{name} was so {good} that {he} hugged {pet}.", "\"Thank you, {pet},\" said {name}. {He} was very {good}.", "They ate a {food} together.", "{name} gave {pet} a big {food}.",
         "They played with the {thing} until it was dark.", "{His} {grown} was {good}, too."]
END = ["From that day on, {name} and {pet} were best friends.", "{name} learned that it is good to share.", "{name} learned to ask for help.", "Then {name} went home and told {his} {grown} about {pet}.",
       "They all lived happily ever after.", "That night, {name} fell asleep with the {thing}.", "And {name} never lost {his} {thing} again."]
SMALL = ["little", "small", "young", "kind", "brave", "curious", "clever", "shy"]


def words_of(draw):
    girl = draw.below(2)
    friend = draw.one(FRIENDS)
    return dict(name=draw.one(GIRLS if girl else BOYS), kind="girl" if girl else "boy", he="she" if girl else "he", He="She" if girl else "He",
                his="her" if girl else "his", His="Her" if girl else "His", him="her" if girl else "him", friend=friend, pet=friend.split()[-1],
                place=draw.one(PLACES), thing=draw.one(THINGS), food=draw.one(FOODS), good=draw.one(GOOD), bad=draw.one(BAD),
                weather=draw.one(WEATHER), grown=draw.one(GROWN), small=draw.one(SMALL))


def story(draw):
    words = words_of(draw)
    said = []
    for kinds, times in ((BEGIN, 1), (LOVES, 1), (DAY, 1), (MEETS, 1), (SAYS, 1 + draw.below(3)), (TROUBLE, 1), (FEELS, 1), (HELP, 1 + draw.below(2)),
                         (WORK, 1 + draw.below(3)), (FOUND, 1), (AFTER, 1 + draw.below(2)), (END, 1 + draw.below(2))):
        left = list(kinds)
        for _ in range(times):  # no sentence twice in a story
            said.append(left.pop(draw.below(len(left))).format(**words))
    half = 4 + draw.below(4)
    return " ".join(said[:half]) + "\n" + " ".join(said[half:]) + "\n\n"


def main():
    p = argparse.ArgumentParser(description="Writes a text of short stories to standard output.")
    p.add_argument("characters", type=int, nargs="?", default=4000000, help="at least so many [4000000]")
    p.add_argument("seed", type=int, nargs="?", default=1, help="of the stories [1]")
    a = p.parse_args()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # head -1 may end it
    draw = Draw(a.seed)
    size = 0
    while size < a.characters:
        text = story(draw)
        size += len(text)
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
