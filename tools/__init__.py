"""What measures the project, writes its captures and draws its pictures: no part of the product."""
