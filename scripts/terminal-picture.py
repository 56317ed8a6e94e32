#!/usr/bin/env python3
"""terminal-picture.py in.ansi out.png columns: draws what `tmux capture-pane -e -p` gave. Needs Pillow and DejaVu Sans Mono."""
import re
import sys
import unicodedata

from PIL import Image, ImageDraw, ImageFont

FONTS = "/usr/share/fonts/truetype/dejavu/DejaVuSansMono"
SIZE = 20
LINE = SIZE + 6
MARGIN = 14
FOREGROUND, BACKGROUND = (212, 212, 212), (24, 24, 30)
LIGHT_FOREGROUND, LIGHT_BACKGROUND = (40, 40, 40), (250, 250, 248)
BASIC = [(0, 0, 0), (205, 49, 49), (13, 188, 121), (229, 229, 16), (36, 114, 200), (188, 63, 188), (17, 168, 205),
         (229, 229, 229), (102, 102, 102), (241, 76, 76), (35, 209, 139), (245, 245, 67), (59, 142, 234),
         (214, 112, 214), (41, 184, 219), (255, 255, 255)]
TOKEN = re.compile(r"\x1b\[([0-9;:]*)m|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()].|([^\x1b])")


def indexed(n):
    if n < 16:
        return BASIC[n]
    if n < 232:
        n -= 16
        return tuple(0 if v == 0 else 55 + 40 * v for v in (n // 36, n // 6 % 6, n % 6))
    return (8 + 10 * (n - 232),) * 3


def apply(codes, style):
    """Changes a style by the numbers of one SGR sequence."""
    k = 0
    while k < len(codes):
        code = codes[k]
        if code == 0:
            style.clear()
        elif code in (1, 2, 3, 4, 7):
            style[{1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "inverse"}[code]] = True
        elif code == 22:
            style.pop("bold", None)
            style.pop("dim", None)
        elif code in (23, 24, 27):
            style.pop({23: "italic", 24: "underline", 27: "inverse"}[code], None)
        elif 30 <= code <= 37 or 90 <= code <= 97:
            style["fg"] = BASIC[code - 30 if code < 90 else code - 82]
        elif 40 <= code <= 47 or 100 <= code <= 107:
            style["bg"] = BASIC[code - 40 if code < 100 else code - 92]
        elif code in (39, 49):
            style.pop("fg" if code == 39 else "bg", None)
        elif code in (38, 48) and k + 1 < len(codes):
            side = "fg" if code == 38 else "bg"
            if codes[k + 1] == 5:
                style[side] = indexed(codes[k + 2])
                k += 2
            elif codes[k + 1] == 2:
                style[side] = tuple(codes[k + 2:k + 5])
                k += 4
        k += 1


def block(draw, char, box, color, background):
    """Block and line characters are drawn, so that neighbours join whatever the font does."""
    left, top, right, bottom = box
    if char == "█":
        draw.rectangle([left, top + 4, right, bottom - 4], fill=color)
    elif char == "░":
        mixed = tuple((a + 2 * b) // 3 for a, b in zip(color, background))
        draw.rectangle([left, top + 4, right, bottom - 4], fill=mixed)
    elif char == "─":
        middle = (top + bottom) // 2
        draw.rectangle([left, middle, right, middle + 1], fill=color)
    else:
        return False
    return True


def main():
    source, target, columns = sys.argv[1], sys.argv[2], int(sys.argv[3])
    light = "--light" in sys.argv
    foreground, background = (LIGHT_FOREGROUND, LIGHT_BACKGROUND) if light else (FOREGROUND, BACKGROUND)
    fonts = {(b, i): ImageFont.truetype(FONTS + suffix + ".ttf", SIZE)
             for (b, i), suffix in {(False, False): "", (True, False): "-Bold", (False, True): "-Oblique",
                                    (True, True): "-BoldOblique"}.items()}
    cell = round(fonts[False, False].getlength("M"))
    lines = open(source, encoding="utf8").read().rstrip("\n").split("\n")
    size = (columns * cell + 2 * MARGIN, len(lines) * LINE + 2 * MARGIN)
    image = Image.new("RGB", size, background)
    draw = ImageDraw.Draw(image)
    style = {}
    for row, line in enumerate(lines):
        column = 0
        for match in TOKEN.finditer(line):
            if match.group(1) is not None:
                apply([int(v or 0) for v in re.split("[;:]", match.group(1))], style)
                continue
            char = match.group(2)
            if not char:
                continue
            wide = unicodedata.east_asian_width(char) in "WF"
            width = 2 if wide else 0 if unicodedata.combining(char) else 1
            fg, bg = style.get("fg", foreground), style.get("bg", background)
            if style.get("inverse"):
                fg, bg = bg, fg
            if style.get("dim"):
                fg = tuple((a + b) // 2 for a, b in zip(fg, bg))
            left, top = MARGIN + column * cell, MARGIN + row * LINE
            box = [left, top, left + width * cell - 1, top + LINE - 1]
            if bg != background:
                draw.rectangle(box, fill=bg)
            if char != " " and not block(draw, char, box, fg, bg):
                draw.text((left, top + 1), char, font=fonts[bool(style.get("bold")), bool(style.get("italic"))], fill=fg)
            column += width
    image.quantize(48).save(target, optimize=True)


main()
