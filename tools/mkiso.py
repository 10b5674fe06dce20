#!/usr/bin/env python3
"""mkiso.py: makes the bootable ISO from a kernel and a grub.cfg, the same bytes every time.

grub-mkrescue stamps the date into the volume and into a file's name, so it cannot make the same image twice;
this does what it does for a PC with a BIOS, with every date fixed: grub-mkimage for the core, GRUB's own CD
boot sector before it, xorriso for the file system. The menu stays a file of its own in /boot/grub, because
GRUB runs an embedded configuration in rescue mode, where an unquoted variable is not split into words.

The kernel goes in without its debug sections, a megabyte that GRUB would load and a small machine has no room for; its
symbols stay, since a panic names its backtraces by them.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile

# Built into the core: what it takes to find and run grub.cfg and the kernel. Nothing is loaded from disk.
MODULES = [
    'biosdisk',
    'iso9660',
    'normal',
    'multiboot2',
    'smbios',
    'regexp',
    'test',
    'echo',
    'serial',
    'terminal',
    'configfile',
    'minicmd',
]
EPOCH = '946684800'  # 2000-01-01, any fixed date
VOLUME_DATE = '2000010100000000'


def grub_folder():
    for path in ('/usr/lib/grub/i386-pc', '/usr/lib/grub2/i386-pc', '/usr/share/grub2/i386-pc'):
        if os.path.exists(os.path.join(path, 'cdboot.img')):
            return path
    sys.exit('mkiso.py: GRUB for a PC BIOS is not installed (Debian: grub-pc-bin)')


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                          env={**os.environ, 'SOURCE_DATE_EPOCH': EPOCH, 'TZ': 'UTC', 'LC_ALL': 'C'})
    if done.returncode != 0:
        sys.stderr.write(done.stdout.decode(errors='replace'))
        sys.exit(f'mkiso.py: {command[0]} failed with status {done.returncode}')


def tool(*names):
    for name in names:
        if shutil.which(name):
            return name
    sys.exit(f'mkiso.py: {names[0]} is not installed')


def make(kernel, config, output, modules=()):
    grub = grub_folder()
    with tempfile.TemporaryDirectory(dir=os.path.dirname(output) or '.') as work:
        root = os.path.join(work, 'root')
        boot = os.path.join(root, 'boot', 'grub')
        os.makedirs(boot)
        run(tool('objcopy', 'llvm-objcopy'), '--strip-debug', kernel, os.path.join(root, 'boot', 'kernel.elf'))
        shutil.copyfile(config, os.path.join(boot, 'grub.cfg'))
        core = os.path.join(work, 'core.img')
        run(tool('grub-mkimage', 'grub2-mkimage'), '-O', 'i386-pc', '-d', grub, '-p', '/boot/grub',
            '-o', core, *MODULES, *modules)
        with open(os.path.join(boot, 'eltorito.img'), 'wb') as out:
            for part in (os.path.join(grub, 'cdboot.img'), core):
                with open(part, 'rb') as f:
                    shutil.copyfileobj(f, out)
        for folder, _, files in os.walk(root):
            for name in files:
                os.chmod(os.path.join(folder, name), 0o644)
                os.utime(os.path.join(folder, name), (int(EPOCH), int(EPOCH)))
            os.chmod(folder, 0o755)
            os.utime(folder, (int(EPOCH), int(EPOCH)))
        image = os.path.join(work, 'image.iso')
        run(tool('xorriso'), '-as', 'mkisofs', '-quiet', '-o', image, '-V', 'HAYLOFT', '-R',
            '-uid', '0', '-gid', '0',
            '-b', 'boot/grub/eltorito.img', '-no-emul-boot', '-boot-load-size', '4', '-boot-info-table',
            f'--modification-date={VOLUME_DATE}', root)
        os.replace(image, output)


def main(argv):
    parser = argparse.ArgumentParser(description='Makes the bootable ISO.')
    parser.add_argument('--kernel', required=True)
    parser.add_argument('--config', required=True)
    parser.add_argument('--output', required=True)
    parser.add_argument('--module', action='append', default=[],
                        help='one more of GRUB\'s, for a configuration that needs it')
    args = parser.parse_args(argv)
    make(args.kernel, args.config, args.output, args.module)
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
