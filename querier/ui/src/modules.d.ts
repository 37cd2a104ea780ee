/* The viewer of exported pages, built apart (vite.config.ts). */
declare module "virtual:viewer" {
  export const script: string;
  export const style: string;
}
