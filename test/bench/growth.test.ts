/** What the growth bench reports as growing, and how it draws the figures. */
import { expect, it } from 'vitest';
import { drawCurves } from '../../bench/curve-svg.ts';
import { describeGrowth, findGrowing, type GrowthPoint } from '../../bench/growth.ts';

function makePoint(count: number, over: Partial<GrowthPoint> = {}): GrowthPoint {
  return {
    count,
    disk_bytes_per_1000: 1_500_000,
    write_cpu_ms_per_1000: 400,
    backlog_ms_per_1000: 200,
    read_cpu_ms_per_1000: 90,
    anon_bytes: 300e6,
    list_p99_ms: { '/capture/runs': 40 },
    list_cpu_ms: { '/capture/runs': 20 },
    ...over,
  };
}

it('growth is a higher cost for each exchange, or clearly more processor time of a query', () => {
  const flat = [
    makePoint(1_000),
    makePoint(300_000, { anon_bytes: 400e6, list_p99_ms: { '/capture/runs': 900 } }),
  ];
  expect(findGrowing(flat)).toEqual([]);
  const grown = makePoint(300_000, { read_cpu_ms_per_1000: 180, list_cpu_ms: { '/capture/runs': 60 } });
  expect(findGrowing([makePoint(1_000), grown])).toEqual([
    'processor time of /capture/runs: 3.0 times',
    'processor time of reading an item: 2.0 times',
  ]);
  const quick = [
    makePoint(1_000, { list_cpu_ms: { '/capture/runs': 1 } }),
    makePoint(2_000, { list_cpu_ms: { '/capture/runs': 4 } }),
  ];
  expect(findGrowing(quick)).toEqual([]);
});

it('growth is shown as a table with a unit in each cell', () => {
  const points = [makePoint(1_000), makePoint(300_000)];
  const lines = describeGrowth({ exchanges: points, runs: [], grows: [] });
  expect(lines[0]).toMatch(/^exchanges +1,000 +300,000$/);
  expect(lines).toContainEqual(expect.stringMatching(/^disk bytes per item +1500 B +1500 B$/));
  expect(lines).toContainEqual(expect.stringMatching(/^memory +300 MB +300 MB$/));
  expect(lines).toContainEqual(expect.stringMatching(/^p99 of \/capture\/runs +40\.0 ms +40\.0 ms$/));
  expect(lines.at(-1)).toBe('nothing grows');
});

it('growth is drawn inside the picture, with the whole name of each line', () => {
  const name = 'processor time of /capture/runs?limit=100&q=status:failed,error';
  const drawn = drawCurves(
    [
      {
        name,
        points: [
          [1_000, 1],
          [300_000, 9.5],
        ],
      },
    ],
    { title: 'growth', axis: 'exchanges', reaches: 2 },
  );
  const width = Number(/viewBox="0 0 (\d+) /.exec(drawn)![1]);
  const [, x, y] = /<text x="([\d.]+)" y="([\d.]+)" fill=/.exec(drawn)!;
  expect(Number(x) + 6 * name.length).toBeLessThan(width);
  expect(Number(y)).toBeGreaterThan(0);
  expect(drawn).toContain('300,000');
});
