/** Types for the part of jstat that is used here; the package ships none. */
declare module 'jstat' {
  const jstat: {
    /** The complementary error function. */
    erfc(x: number): number;
    normal: {
      cdf(x: number, mean: number, deviation: number): number;
      inv(p: number, mean: number, deviation: number): number;
    };
    hypgeom: { cdf(x: number, all: number, marked: number, drawn: number): number };
    chisquare: { cdf(x: number, degrees: number): number };
    beta: {
      inv(p: number, alpha: number, beta: number): number;
      cdf(x: number, alpha: number, beta: number): number;
    };
  };
  export default jstat;
}
