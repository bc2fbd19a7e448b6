"""What is wrong with a card, by rules that are rows.

Pure: no rows of the database, no clock, no machine. ``rules`` has the rules and ``xids`` the
driver's error numbers as data; ``judge`` applies them to one look after another; ``looks`` says
what a look is. What follows from a verdict is decided on the floor above.
"""
