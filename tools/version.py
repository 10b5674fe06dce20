#!/usr/bin/env python3
"""version.py: writes build/<variant>/version.h, what an image says about itself in its hello record.

Ninja runs it at each build; the file is rewritten only when its text changes, so a new commit recompiles the one
file that includes it. No date and no machine name goes in: the same tree gives the same image. Without git (an
unpacked archive) the id is "unknown" and the tree counts as clean.
"""

import argparse
import os
import subprocess
import sys

VERSION = '0.1.0'
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def output_of(*command):
    """A command's standard output, or None if it cannot run or fails."""
    try:
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              check=False, env={**os.environ, 'LC_ALL': 'C'})
    except OSError:
        return None
    return done.stdout.decode(errors='replace').strip() if done.returncode == 0 else None


def git_state():
    """(id, dirty). A tree unpacked inside somebody else's repository is not that repository."""
    top = output_of('git', 'rev-parse', '--show-toplevel')
    if top is None or os.path.realpath(top) != os.path.realpath(ROOT):
        return 'unknown', False
    commit = output_of('git', 'rev-parse', '--short=12', 'HEAD')
    if commit is None:
        return 'unknown', False
    changed = output_of('git', '--no-optional-locks', 'status', '--porcelain', '--untracked-files=no')
    return commit, bool(changed)


def compiler_version(cc):
    text = output_of(cc, '--version')
    return text.splitlines()[0] if text else cc


def quoted(text):
    return '"' + text.replace('\\', '\\\\').replace('"', '\\"') + '"'


def header(variant, cc, flags):
    commit, dirty = git_state()
    fields = [
        ('HAYLOFT_VERSION', quoted(VERSION)),
        ('HAYLOFT_GIT', quoted(commit)),
        ('HAYLOFT_DIRTY', '1' if dirty else '0'),
        ('HAYLOFT_COMPILER', quoted(compiler_version(cc))),
        ('HAYLOFT_FLAGS', quoted(flags)),
        ('HAYLOFT_VARIANT', quoted(variant)),
    ]
    return ''.join(['/* Written by tools/version.py. */\n', '#ifndef HAYLOFT_VERSION_H\n',
                    '#define HAYLOFT_VERSION_H\n', '\n',
                    *(f'#define {name} {value}\n' for name, value in fields), '\n', '#endif\n'])


def write_if_changed(path, text):
    try:
        with open(path, encoding='utf-8') as f:
            if f.read() == text:
                return
    except OSError:
        pass
    os.makedirs(os.path.dirname(path) or '.', exist_ok=True)
    aside = path + '.new'
    with open(aside, 'w', encoding='utf-8') as f:
        f.write(text)
    os.replace(aside, path)


def main(argv):
    parser = argparse.ArgumentParser(description='Writes version.h.')
    parser.add_argument('--output', required=True)
    parser.add_argument('--variant', required=True)
    parser.add_argument('--cc', default='clang')
    parser.add_argument('--flags', default='')
    args = parser.parse_args(argv)
    write_if_changed(args.output, header(args.variant, args.cc, args.flags))
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
