/**
 * The corpus from which the default model derives word weights: documentation and code of packages published under
 * permissive licences. Each package is pinned by version and checksum and fetched through npm. Words are only counted;
 * the model contains no text of the corpus. Development only.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { inflateRawSync } from 'node:zlib';

interface Source {
  spec: string;
  licence: string;
  integrity: string;
}

/** Maximum length of the counted part of a text, and minimum length of a text, in UTF-16 code units. */
const TEXT_CHARACTERS = 2_000;
const TEXT_CHARACTERS_MIN = 30;
const FILE_BYTES_MAX = 3_000_000;

const SOURCES: readonly Source[] = [
  {
    spec: '@anthropic-ai/sdk@1.11.0',
    licence: 'Apache-2.0',
    integrity:
      'sha512-lW16YCGJ7ItUy92hehGjuMIxvhCeW8pYi4w4jzzfo8UtRbEamagUJAzAEh1VxS6wHfDh6yB+/KE/Rqp2i6elIw==',
  },
  {
    spec: '@aws-sdk/client-bedrock-runtime@3.1162.0',
    licence: 'Apache-2.0',
    integrity:
      'sha512-5JiQfVsvbQ4E/v7+E9dDF0VYp02OKdKceAJyBzK3H+Ia13ntMZFgD5YL/xpgNR2SuK89MxuwdU5ilAqiXbarKw==',
  },
  {
    spec: '@google/genai@3.1.0',
    licence: 'Apache-2.0',
    integrity:
      'sha512-fKLeRkpULBDox+b5wmm4UN6PsUw1v5kP+8vJF1aq/wSpiI2sV4AuDtL0uZqu91AH4lc25fZ8sDa6cyCQOFyaXg==',
  },
  {
    spec: '@opentelemetry/api@1.10.0',
    licence: 'Apache-2.0',
    integrity:
      'sha512-lMkyes8iHrG+mk6WH7X70MdCLI2RS0FwNBY1PyQ8UemaijE2m5mv5A0Niy3HtbYTFrgkUEQjFMXmSAk2hQDuPQ==',
  },
  {
    spec: '@smithy/core@3.41.0',
    licence: 'Apache-2.0',
    integrity:
      'sha512-fuZ34H1uizS3WgcX9VXG7Uy8od5A5/kCc+CR3NkHLNm2H/BE9AUHG02VIdu8ZB7FYhLqsr/RZbqAoXuOCg/Oxg==',
  },
  {
    spec: '@types/node@22.20.5',
    licence: 'MIT',
    integrity:
      'sha512-U2+DNr+wSjpsTS/wZGYHq7GcwfuSmKiKvoPvK22zwTlRhU91yOniN4qRR5KhIjvif7ysw/dz/hKmfDH0Ris4aA==',
  },
  {
    spec: 'fast-check@4.10.2',
    licence: 'MIT',
    integrity:
      'sha512-iK2f+YrcmoeGqk6fA0ea2bptcu/itMIm4NfEozq6N25+aG6h7s5HZbB/k1aV7b5w5sFLMCbbtRUsTVR+BgC3xw==',
  },
  {
    spec: 'google-auth-library@10.9.1',
    licence: 'Apache-2.0',
    integrity:
      'sha512-i1ydyHrqcIxXkWh/uBmVkzCvIuq5yiK2ATndIe5XxKholrG/MTYP9xGYka4sQhrbIAgGjL2B6NOE7rFaiF3fXw==',
  },
  {
    spec: 'jose@6.2.17',
    licence: 'MIT',
    integrity:
      'sha512-wOuK9V1yujQFH5S0ZWmLcDZN7+IKh9bUCC2ZPCf2HDlol3WWHy+PPyNjEI75FXRLMp3vDKQcupP59xhVU95hcg==',
  },
  {
    spec: 'lmdb@3.5.6',
    licence: 'MIT',
    integrity:
      'sha512-j3uE8ReKNyUWDjhfEFSJqE/1DLtfTR5Z8yFzVHvBjAk37wNg7HdScjcv8ttPHRvrdgPQMPWxFFI0SsdBzI5lBw==',
  },
  {
    spec: 'openai@7.55.0',
    licence: 'Apache-2.0',
    integrity:
      'sha512-0r4snVSRN46m4wL2vXCW5Xw6CKGPbdNI8t79KZOpe8GKKPmhL8peDXN8YOY/2ipsOVWSfsP/vgkLjTmWB+kMug==',
  },
  {
    spec: 'pino@10.4.0',
    licence: 'MIT',
    integrity:
      'sha512-bk1ZMTwG/Vymx+zPoa28MhNzucFvXJWp3csrSuxuHPSMeUettaCoQ5Jvg07mtC4JGNpcfTwz41oVCnNgBK9+vA==',
  },
  {
    spec: 'piscina@5.3.2',
    licence: 'MIT',
    integrity:
      'sha512-vv7l/mM7B9WgrhDaudIqv1x6v4LOBRYYmpWGdWushhpbCmVHp11sUB2v4hj1CAeTGXVxuZFz6xOU1RalAiPKfQ==',
  },
  {
    spec: 'pyodide@314.0.7',
    licence: 'MPL-2.0; the Python library in it PSF-2.0',
    integrity:
      'sha512-0YvXxEhfEdpLfb/XkM2BFAeMROq0iMUX2bzzH9pOttyMcWkwq+HbE5uyuGD82LN7y2q+SNvi/6V5JEsOlD2R1A==',
  },
  {
    spec: 'rolldown@1.2.19',
    licence: 'MIT',
    integrity:
      'sha512-QIiV1J9d0pzN4jeeTH4sjPy0AZ6cAy2cG0ExeoE1+U8Rvj+hR3gYkokx0YbeUNGlZqiQJJ2utcETe0oKXwzsuA==',
  },
  {
    spec: 'undici@8.12.4',
    licence: 'MIT',
    integrity:
      'sha512-8Mx+uNKKER2bA4AdtedkqRbwUCIJFr2nJckXRe5yrDqzePqwLP7VNcctN8/XdmDSbF7mS+jJKIszlL+vbam1VA==',
  },
  {
    spec: 'vite@8.3.8',
    licence: 'MIT',
    integrity:
      'sha512-LzOn3h9rG/0vhLdXrV4yJ4QFA9eEoqCl+Yx+kGJd7aB9w6nfNgVHKSYwLPZUHrz4ZGa+t+kXjV9itvcHDLQouA==',
  },
  {
    spec: 'vitest@5.1.1',
    licence: 'MIT',
    integrity:
      'sha512-trVmzUFOSraCZcI3uZIMD5FqBh4atFkC/XuJP/IU7qtyQay0FCs3Ia+0QiQ2JJwGyWG/xrcBoJNel2+O7kEZ0g==',
  },
  {
    spec: 'zod@4.6.7',
    licence: 'MIT',
    integrity:
      'sha512-g8W2D2kU6a8untc053fX1uVBKzM7yqAxW/3zwk83+6RyF2+SKOuV+c0wBDhUwzV1PaGapmZH+rmcUzPf+3CGwg==',
  },
];

/**
 * Reads the texts of the corpus, and fetches packages that the cache lacks.
 * @param cacheDir folder for fetched packages
 * @returns distinct texts, always in the same order
 */
export function readCorpus(cacheDir: string): string[] {
  const texts = new Set<string>();
  for (const source of SOURCES) {
    const dir = fetchPackage(source, cacheDir);
    for (const file of listFiles(dir)) {
      const path = join(dir, file);
      if (file.endsWith('python_stdlib.zip')) {
        for (const code of readZip(readFileSync(path))) {
          // Texts about coding tasks rarely name their language, but queries often do.
          for (const text of splitPython(code)) addText(texts, `python ${text}`);
        }
      } else if (/\.d\.m?ts$/.test(file)) {
        for (const text of splitComments(readFileSync(path, 'utf8'))) addText(texts, `javascript ${text}`);
      } else if (/\.md$/i.test(file) && !/licen[cs]e|changelog|history/i.test(file)) {
        for (const text of readFileSync(path, 'utf8').split(/\n\s*\n/)) addText(texts, `javascript ${text}`);
      }
    }
  }
  return [...texts];
}

function addText(texts: Set<string>, text: string): void {
  const plain = text
    .replace(/https?:\/\/\S+/g, ' ')
    .replace(/\s+/g, ' ')
    .trim();
  if (plain.length >= TEXT_CHARACTERS_MIN) texts.add(plain.slice(0, TEXT_CHARACTERS));
}

function splitComments(code: string): string[] {
  return (code.match(/\/\*\*[\s\S]*?\*\//g) ?? []).map((text) => text.replace(/^\s*\/?\*+\/?/gm, ' '));
}

/** Splits code into functions and classes, each with its documentation. */
function splitPython(code: string): string[] {
  return code.split(/^(?=[ \t]*(?:async )?(?:def|class) )/m);
}

/**
 * Fetches a package unless the cache has it, checks it and unpacks it.
 * @returns the folder with its files
 * @throws Error if the checksum is not the expected one
 */
function fetchPackage(source: Source, cacheDir: string): string {
  const dir = join(cacheDir, source.spec.replace(/[^\w.-]/g, '_'));
  mkdirSync(dir, { recursive: true });
  const find = () => readdirSync(dir).find((name) => name.endsWith('.tgz'));
  if (find() === undefined) {
    execFileSync('npm', ['pack', source.spec, '--pack-destination', dir, '--ignore-scripts'], {
      stdio: 'ignore',
    });
  }
  const file = join(dir, find()!);
  const integrity = `sha512-${createHash('sha512').update(readFileSync(file)).digest('base64')}`;
  if (integrity !== source.integrity) throw new Error(`${source.spec}: its checksum is ${integrity}`);
  execFileSync('tar', ['-xzf', file, '-C', dir]);
  return dir;
}

/**
 * Lists the files under a folder, by their paths within the folder, sorted. Files above FILE_BYTES_MAX are left out,
 * except for archives.
 */
function listFiles(dir: string): string[] {
  return readdirSync(dir, { recursive: true, encoding: 'utf8' })
    .filter((name) => {
      const stats = statSync(join(dir, name));
      return stats.isFile() && (stats.size <= FILE_BYTES_MAX || name.endsWith('.zip'));
    })
    .sort();
}

/** Reads the Python files of a zip archive, in its order (APPNOTE.TXT 4.3.7, 4.3.12, 4.3.16). */
function readZip(archive: Buffer): string[] {
  const end = archive.lastIndexOf('PK\x05\x06', undefined, 'latin1');
  let at = archive.readUInt32LE(end + 16);
  const files: string[] = [];
  for (let left = archive.readUInt16LE(end + 10); left > 0; left--) {
    const [nameLength, extraLength, commentLength] = [28, 30, 32].map((o) => archive.readUInt16LE(at + o));
    const name = archive.toString('utf8', at + 46, at + 46 + nameLength!);
    const local = archive.readUInt32LE(at + 42);
    const start = local + 30 + archive.readUInt16LE(local + 26) + archive.readUInt16LE(local + 28);
    const packed = archive.subarray(start, start + archive.readUInt32LE(at + 20));
    const isPlain = archive.readUInt16LE(at + 10) === 0;
    // Modules of Python's standard library that hold only data tables are left out.
    if (name.endsWith('.py') && !/encodings\/|pydoc_data\/|_sysconfig/.test(name)) {
      files.push((isPlain ? packed : inflateRawSync(packed)).toString('utf8'));
    }
    at += 46 + nameLength! + extraLength! + commentLength!;
  }
  return files;
}
