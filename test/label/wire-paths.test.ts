/** The paths that the labelling clients know, compared with those of the wire formats, because they share no code. */

import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { isModelCall } from '../../src/label/labelled-target.ts';
import { classifyRequest } from '../../src/providers/classify.ts';
import { WIRE_LIST } from '../../src/providers/wires.ts';

describe.each(WIRE_LIST.map((wire) => [wire.shape, wire] as const))(
  'the wire format %s',
  (shape, { paths }) => {
    it('is labelled and classified by each of its paths', () => {
      expect(paths.examples.length).toBeGreaterThan(0);
      for (const path of paths.examples) {
        const route = paths.routes === 'bedrock' ? 'bedrock' : 'default';
        expect(classifyRequest(route, 'POST', path), path).toEqual({ kind: 'turn', shape });
        expect(isModelCall(path), path).toBe(true);
      }
    });
  },
);

it('the Python client labels the same paths', () => {
  const source = (file: string): string => readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8');
  const own = /const MODEL_CALL =\s*\/(.+)\/;/.exec(source('src/label/labelled-target.ts'))![1]!;
  const lines = /_LLM_PATH = re\.compile\(([\s\S]*?)\n\)/.exec(
    source('clients/python/understudy_gateway/_labels.py'),
  )![1]!;
  const python = [...lines.matchAll(/r"([^"]*)"/g)].map(([, text]) => text).join('');
  expect(python).toBe(own.replaceAll('\\/', '/'));
});
